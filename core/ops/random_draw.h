// The region of a random draw, which dropout and random_normal share. An element's draw is keyed by
// its index in the whole tensor: when a part is made, the attributes `start` and `whole` say which.
#ifndef TESSERA_CORE_OPS_RANDOM_DRAW_H_
#define TESSERA_CORE_OPS_RANDOM_DRAW_H_

#include "core/graph/attributes.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/ops/input_check.h"

namespace tessera {

// `start` and `whole` are both there or both not, and a part of shape `shape` at `start` lies
// within the whole.
absl::Status CheckDrawnRegion(const InputCheck& check, const Attributes& attributes,
                              const Shape& shape);

// `attributes` for the part `region`, of shape `shape`, of what they draw now. They stay as they
// are if that is all of it.
Attributes WithDrawnRegion(const Attributes& attributes, const Shape& shape, const Region& region);

// The graph's input "seed" or "step", an i64 scalar; declared if there is none.
Tensor DrawInput(Graph& graph, absl::string_view name);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RANDOM_DRAW_H_
