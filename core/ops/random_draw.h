// The region of a random draw, for dropout and random_normal. The draw of an element is keyed by
// its index in the global tensor. If only a part is drawn, the attributes `start` and `whole` give
// its position and the global shape.
#ifndef TESSERA_CORE_OPS_RANDOM_DRAW_H_
#define TESSERA_CORE_OPS_RANDOM_DRAW_H_

#include "core/graph/attributes.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/ops/input_check.h"

namespace tessera {

// Checks that the attributes `start` and `whole` are both present or both absent, and that a part
// of shape `shape` at `start` is inside `whole`.
absl::Status CheckDrawnRegion(const InputCheck& check, const Attributes& attributes,
                              const Shape& shape);

// Returns `attributes` for the part `region`, of shape `shape`, of what they draw now. They are
// unchanged if the region is all of it.
Attributes WithDrawnRegion(const Attributes& attributes, const Shape& shape, const Region& region);

// Returns the graph's input "seed" or "step", an i64 scalar. Declares it if there is none.
Tensor DrawInput(Graph& graph, absl::string_view name);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RANDOM_DRAW_H_
