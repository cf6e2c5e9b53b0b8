// How ranks on one host find each other where the launcher gives them no secret, or no port: rank 0
// makes both, and hands them to processes of the same user through a Unix socket whose name follows
// from the job's. The name lies in Linux's abstract namespace: no file is made, nothing is left
// behind, and the name is free again when rank 0 is gone. Each side looks, with the kernel's word
// for it, whether the other one is a process of its own user.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_LOCAL_MEETING_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_LOCAL_MEETING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/rendezvous/socket.h"

namespace tessera::comm {

struct LocalAddress {
  int port = 0;  // on 127.0.0.1
  std::string secret;
};

// A listening socket. AlreadyExists if one of this job is there.
absl::StatusOr<FileDescriptor> OpenLocalMeeting(absl::string_view job);

// Tells those who are asking, and are of this user, the address; some of them if they are many.
// Does not wait.
void AnswerLocalMeeting(const FileDescriptor& meeting, const LocalAddress& address);

// Asks once. Unavailable if rank 0 is not there yet or says nothing before the deadline,
// PermissionDenied if another user has the name.
absl::StatusOr<LocalAddress> AskLocalMeeting(absl::string_view job, Deadline deadline);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_LOCAL_MEETING_H_
