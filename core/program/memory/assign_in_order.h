// Assigns offsets to live ranges one after another.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_IN_ORDER_H_
#define TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_IN_ORDER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "core/program/memory/assign_offsets.h"

namespace tessera {

enum class Fit { kTightest, kLowest };

// Assigns ranges one after another in the given order. Each goes to the tightest (or lowest) gap
// that is free during its whole live range. Stops when it needs `limit` bytes.
Assignment AssignInOrder(absl::Span<const LiveRange> ranges, const std::vector<int32_t>& order,
                         Fit fit, int64_t limit = std::numeric_limits<int64_t>::max());

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_IN_ORDER_H_
