// Random draws, for dropout, random_crop_flip and random_normal. The draw of an element (or of a
// picture) is keyed by its index in the global tensor. If only a region is drawn, the attributes
// `start` and `global_shape` give its position and the shape of the global tensor.
#ifndef TESSERA_CORE_OPS_RANDOM_DRAW_H_
#define TESSERA_CORE_OPS_RANDOM_DRAW_H_

#include "core/graph/attributes.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/ops/input_check.h"

namespace tessera {

// Checks that the attributes `start` and `global_shape` are both present or both absent, and that a
// region of shape `shape` at `start` is inside a tensor of shape `global_shape`.
absl::Status CheckDrawnRegion(const InputCheck& check, const Attributes& attributes,
                              const Shape& shape);

// Checks that as well, and that the attribute `random_path` is a text. It is absent in a kernel
// request, which does not say which numbers are drawn.
absl::Status CheckDraw(const InputCheck& check, const Attributes& attributes, const Shape& shape);

// Returns the attributes with which only `region`, of shape `shape`, of the tensor that
// `attributes` draw is drawn. Returns `attributes` unchanged if the region is the full tensor.
Attributes WithDrawnRegion(const Attributes& attributes, const Shape& shape, const Region& region);

// Returns the graph's input `name`, an i64 scalar: "seed" or "step", by which the numbers of a draw
// are keyed besides the path and the index of the element. Declares the input if there is none.
Tensor FindOrAddDrawKeyInput(Graph& graph, absl::string_view name);

// Records the operator on x, seed and step, with its own path as the attribute `random_path`.
// Returns its output; an invalid handle if x is one or does not fit.
Tensor RecordDraw(const Operator& kind, Tensor x, Attributes attributes);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RANDOM_DRAW_H_
