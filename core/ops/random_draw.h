// The region of a random draw, which dropout and random_normal share. An element's draw is keyed by
// its index in the global tensor: if the operator makes a part of it, the attributes `start` and
// `global_shape` say which.
#ifndef TESSERA_CORE_OPS_RANDOM_DRAW_H_
#define TESSERA_CORE_OPS_RANDOM_DRAW_H_

#include "core/graph/attributes.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/ops/input_check.h"

namespace tessera {

// Returns an error unless `start` and `global_shape` are both set, or neither, and a part of shape
// `shape` at `start` lies within the global tensor.
absl::Status CheckDrawnRegion(const InputCheck& check, const Attributes& attributes,
                              const Shape& shape);

// Returns `attributes` for the part `region`, of shape `shape`, of what they draw now; unchanged if
// the part is all of it.
Attributes WithDrawnRegion(const Attributes& attributes, const Shape& shape, const Region& region);

// Returns the graph's input "seed" or "step", an i64 scalar. Declares it if there is none.
Tensor DrawInput(Graph& graph, absl::string_view name);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RANDOM_DRAW_H_
