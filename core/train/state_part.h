// The part of a state that a rank holds, and where it lies in the rank's buffer.
#ifndef TESSERA_CORE_TRAIN_STATE_PART_H_
#define TESSERA_CORE_TRAIN_STATE_PART_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/program/rank_rules.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

struct StatePart {
  Shape global;      // of the state
  StateShard shard;  // the elements that the rank holds
  // The elements of the rank's buffer. Its box has the padded extent, which may reach beyond the
  // tensor: what is in `buffer` only is padding. Members of flat groups have no padding.
  StateShard buffer;
  // Whether this is the lowest rank that holds these elements, which saves them.
  bool saves = true;
};

// All of a state, on the one rank that there is.
StatePart FullPart(const Shape& shape);

// The part of the rank at `coordinates`. Without `flat` (null), the state is stored as a tensor, of
// which `part` says what ranks hold. Otherwise it is a member of a flat group, and `part` is what
// the axes that do not split the group leave of the member. Both are rules that CheckPart and
// CheckFlat accept, and no axis of the layout holds partial values.
StatePart PartOnRank(const PartRule& part, const FlatRule* flat, const Mesh& mesh,
                     absl::Span<const int> coordinates);

// Calls `visit` for elements [first, first + count) of the shard that follow each other in the
// rank's buffer too: `shard_element` counts from the shard's first element, `buffer_element` from
// the buffer's. Ends at an error, which is the result.
absl::Status ForEachBufferRun(
    const StatePart& part, int64_t first, int64_t count,
    const std::function<absl::Status(int64_t shard_element, int64_t buffer_element,
                                     int64_t elements)>& visit);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_PART_H_
