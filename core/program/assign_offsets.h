// Offsets in one arena for live ranges: things that each take some bytes for some time.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_ASSIGN_OFFSETS_H_
#define TESSERA_CORE_PROGRAM_ASSIGN_OFFSETS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tessera {

// Something that takes `bytes` from before step `first` until after step `last`.
struct LiveRange {
  int64_t bytes = 0;  // > 0, a multiple of the alignment
  int32_t first = 0;
  int32_t last = 0;
};

struct Assignment {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // no range ends behind it
};

// Returns offsets at which ranges that overlap in time do not overlap in space. Tries several
// orders and keeps the best; deterministic. Time is n log n; up to 20,000 ranges, orders that
// compare pairs are tried as well.
Assignment AssignOffsets(absl::Span<const LiveRange> ranges);

// The largest sum of bytes that are live at once: no assignment can be smaller.
int64_t LiveBytesBound(absl::Span<const LiveRange> ranges);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_ASSIGN_OFFSETS_H_
