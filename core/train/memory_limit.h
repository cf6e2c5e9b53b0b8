// The limit that a user sets on the memory of a run.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_MEMORY_LIMIT_H_
#define TESSERA_CORE_TRAIN_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Returns the limit with which a run that needs `bytes` is accepted, for people and for the flag:
// "61.2 KiB (--memory_limit=62677)".
std::string SmallestLimit(int64_t bytes);

// Compares the planned peak of `who` ("each rank") with a limit in bytes; 0: none. The error,
// ResourceExhausted, shows the limit as it was written and ends with SmallestLimit.
absl::Status CheckMemoryLimit(int64_t peak_bytes, int64_t limit_bytes, absl::string_view written,
                              absl::string_view who);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEMORY_LIMIT_H_
