// The part of a state that a rank holds, and its position in the rank's buffer.
#ifndef TESSERA_CORE_TRAIN_STATE_STATE_PART_H_
#define TESSERA_CORE_TRAIN_STATE_STATE_PART_H_

#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/program/rank_rules.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

struct StatePart {
  Shape global;      // of the state
  StateShard shard;  // the elements that the rank holds
  // The elements for which the rank's buffer has room. Its box has the padded extent, which may
  // exceed the tensor: elements in `buffer` that are not in `shard` are padding. Members of flat
  // groups have no padding.
  StateShard buffer;
  // Whether this is the lowest rank that holds these elements, which saves them.
  bool saves = true;
};

// Returns the part of the only rank of a run: the full state.
StatePart FullPart(const Shape& shape);

// Returns the part of the rank at `coordinates`. If `flat` is null, the state is stored as a
// tensor, and `part` is the rule for the elements that each rank holds. Otherwise the state is a
// member of a flat group, and `part` is the rule for the elements that the mesh axes other than the
// group's give a rank. CheckPart and CheckFlat must accept the rules, and no axis of the layout may
// hold partial values.
StatePart PartOnRank(const PartRule& part, const FlatRule* flat, const Mesh& mesh,
                     absl::Span<const int> coordinates);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_STATE_PART_H_
