// Packs live ranges as an allocator would during a walk through time.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_PACK_IN_TIME_H_
#define TESSERA_CORE_PROGRAM_MEMORY_PACK_IN_TIME_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/program/memory/assign_offsets.h"

namespace tessera {

// The begins and ends of ranges in the order of time, forward or backward.
struct Walk {
  bool backward = false;
  std::vector<int32_t> moments;       // at which at least one range begins or ends
  std::vector<int64_t> live_bytes;    // of all ranges, by moment
  std::vector<int32_t> begins, ends;  // indices of ranges
};

Walk MakeWalk(absl::Span<const LiveRange> ranges, bool backward);

// A packing of some of the ranges.
struct Packed {
  bool complete = false;
  Assignment assignment;         // offsets of other ranges are 0
  std::vector<int64_t> heights;  // by the walk's moments: the end of the used memory
};

// Packs the ranges for which `in_set` is `chosen` during a walk through them. Stops, and is not
// complete, when these and the other ranges cannot together take fewer than `fewer_than` bytes.
// n log n.
Packed PackInTime(absl::Span<const LiveRange> ranges, const Walk& walk,
                  const std::vector<bool>& in_set, bool chosen, int64_t fewer_than);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_PACK_IN_TIME_H_
