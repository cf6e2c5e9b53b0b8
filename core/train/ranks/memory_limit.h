// The limit that a user sets on the memory of a run.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_RANKS_MEMORY_LIMIT_H_
#define TESSERA_CORE_TRAIN_RANKS_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Returns the smallest limit that accepts a run of `bytes`, in readable form and as the flag: "61.2
// KiB (--memory_limit=62677)".
std::string SmallestLimit(int64_t bytes);

// Returns ResourceExhausted if the planned peak of `who` ("each rank") exceeds the limit; a limit
// of 0 means no limit. The message shows the limit as the user wrote it (`written`) and ends with
// SmallestLimit.
absl::Status CheckMemoryLimit(int64_t peak_bytes, int64_t limit_bytes, absl::string_view written,
                              absl::string_view who);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RANKS_MEMORY_LIMIT_H_
