// Assigns offsets in one arena to live ranges.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_OFFSETS_H_
#define TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_OFFSETS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tessera {

// A number of bytes that is in use from before step `first` until after step `last`.
struct LiveRange {
  int64_t bytes = 0;  // > 0, a multiple of the alignment
  int32_t first = 0;
  int32_t last = 0;
};

struct Assignment {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // size of the arena: the largest end of any range
};

// Returns offsets at which ranges that overlap in time do not overlap in space. Tries several
// orders and keeps the best; deterministic. Time is n log n. Up to 20,000 ranges, it also tries
// orders that compare pairs of ranges.
Assignment AssignOffsets(absl::Span<const LiveRange> ranges);

// Returns the largest sum of bytes that are live at once. It is a lower bound for every assignment.
int64_t LiveBytesBound(absl::Span<const LiveRange> ranges);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_OFFSETS_H_
