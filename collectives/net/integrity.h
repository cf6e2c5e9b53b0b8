// The choice of bytes between ranks that digests cover (frame_digest.h), so that a rank notices if
// they were changed on the way. Nothing is encrypted.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_NET_INTEGRITY_H_
#define TESSERA_COLLECTIVES_NET_INTEGRITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::comm {

// The same on all ranks of a job. Frames of the rendezvous are always covered.
enum class Integrity {
  kNone,
  kControl,  // requests, small data, and all data of groups of control (Contents, communicator.h)
  kAll,      // also tensors
};

// "none", "control", "all"
std::string IntegrityName(Integrity integrity);
// InvalidArgument lists the names.
absl::StatusOr<Integrity> ParseIntegrity(absl::string_view name);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_INTEGRITY_H_
