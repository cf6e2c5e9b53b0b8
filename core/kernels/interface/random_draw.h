// Which random numbers a kernel draws. They are no part of a kernel request: drawing others, or the
// same for another part of a tensor, is the same work.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_
#define TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_

#include <optional>
#include <string>

#include "core/graph/attributes.h"
#include "core/tensor/shape.h"

namespace tessera {

// The numbers of the sequence `path`, one for each element of output 0, by the element's row-major
// index in a global tensor, of which the output is a part (or all).
struct RandomDraw {
  std::string path;
  Shape start;   // of the output's first element in the global tensor
  Shape global;  // the global tensor's shape
};

// Splits the attributes of an operator that draws (random_path, and start and whole of a part) from
// those of its request. nullopt if it does not draw. `shape` is output 0's.
std::optional<RandomDraw> TakeDraw(const Shape& shape, Attributes& attributes);
// The same; leaves the attributes.
std::optional<RandomDraw> DrawOf(const Shape& shape, const Attributes& attributes);

// The index in the global tensor of the output's first element.
int64_t FirstIndex(const RandomDraw& draw);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_
