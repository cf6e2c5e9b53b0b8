// Whether the program's output has been written.
#ifndef TESSERA_CORE_POSIX_STDOUT_STATUS_H_
#define TESSERA_CORE_POSIX_STDOUT_STATUS_H_

#include "absl/status/status.h"

namespace tessera {

// Flushes stdout. Returns an error with the cause if anything could not be written so far. A closed
// pipe is such an error only after LetWritesFail (signals.h).
//
// Thread safety: any thread may call it.
absl::Status StdoutStatus();

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_STDOUT_STATUS_H_
