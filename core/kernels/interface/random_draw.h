// Which random numbers a kernel draws. They are no part of a kernel request: drawing others, or the
// same for another part of a tensor, is the same work.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_
#define TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/graph/attributes.h"
#include "core/tensor/shape.h"

namespace tessera {

// The numbers of the sequence `path`, one for each element of output 0, by the element's row-major
// index in a global tensor, of which the output is a part (or all).
struct RandomDraw {
  std::string path;
  Shape start;   // of the box's first element in the global tensor
  Shape global;  // the global tensor's shape
  // The box of the global tensor whose elements are drawn; nullopt: it has the output's shape, and
  // the output is all of it. Otherwise the output is those of its elements that begin with number
  // `first` in row-major order.
  std::optional<Shape> box = std::nullopt;
  int64_t first = 0;
};

// Splits the attributes of an operator that draws (random_path; start and global_shape of
// a part) from those of its request. nullopt if it does not draw. `shape` is output 0's.
std::optional<RandomDraw> TakeDraw(const Shape& shape, Attributes& attributes);
// The same; leaves the attributes.
std::optional<RandomDraw> DrawOf(const Shape& shape, const Attributes& attributes);

// The index in the global tensor of the box's first element.
int64_t FirstIndex(const RandomDraw& draw);
// The index in the global tensor of an output's element, counted in row-major order. `shape` is the
// output's.
int64_t IndexOf(const RandomDraw& draw, const Shape& shape, int64_t element);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_
