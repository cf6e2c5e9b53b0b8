// How ranks on one host find each other if the launcher gives them no secret or no port. Rank 0
// makes both, and hands them to processes of the same user through a Unix socket whose name is
// derived from the job's name. The name is in Linux's abstract namespace: it is not a file, so
// nothing remains to be removed, and it is free again when rank 0 is gone. Each side checks with
// the kernel that the other one is a process of its own user.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_LOCAL_DISCOVERY_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_LOCAL_DISCOVERY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/net/socket.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// The address of rank 0's store, and the secret for it.
struct StoreAddress {
  std::string host;
  int port = 0;
  std::string secret;
};

// A listening socket for rank 0. AlreadyExists if there is one with this job's name. The name
// contains the user's id, so that jobs of different users do not collide; PermissionDenied, which
// names the user, if another one has bound it nevertheless.
absl::StatusOr<FileDescriptor> OpenLocalDiscovery(absl::string_view job);

// Sends port and secret to processes of this user that are connecting, a bounded number of them in
// one call. Does not wait.
void AnswerLocalRanks(const FileDescriptor& discovery, int port, absl::string_view secret);

// Requests the address of rank 0, on 127.0.0.1, once. Unavailable if rank 0 is not there yet or
// does not answer before the deadline, PermissionDenied if another user has the name.
absl::StatusOr<StoreAddress> DiscoverRankZero(absl::string_view job, Deadline deadline);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_LOCAL_DISCOVERY_H_
