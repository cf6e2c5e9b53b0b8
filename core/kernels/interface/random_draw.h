// Describes the random numbers that a kernel draws. They are not part of a kernel request, because
// drawing other numbers, or those of another region of a tensor, is the same work.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_
#define TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/graph/attributes.h"
#include "core/tensor/shape.h"

namespace tessera {

// The numbers of the random stream of `path`, one for each element of output 0. The number of an
// element is chosen by its row-major index in a global tensor, of which the output is a part (or
// all).
struct RandomDraw {
  std::string path;
  Shape start;   // of the box's first element in the global tensor
  Shape global;  // the global tensor's shape
  // The shape of the box of the global tensor whose elements are drawn. If not set, it is the
  // output's shape, and the output is all of the box. Otherwise the output consists of the box's
  // elements from number `first` on, in row-major order.
  std::optional<Shape> box = std::nullopt;
  int64_t first = 0;
};

// Removes from `attributes` those that describe the draw (random_path, and, for a region, start and
// global_shape), and returns the draw; nullopt if the operator draws nothing. `shape` is the shape
// of output 0.
std::optional<RandomDraw> TakeDraw(const Shape& shape, Attributes& attributes);
// Returns the draw like TakeDraw, but does not change the attributes.
std::optional<RandomDraw> DrawOf(const Shape& shape, const Attributes& attributes);

// Returns the row-major index in the global tensor of the box's first element.
int64_t FirstIndex(const RandomDraw& draw);
// Returns the row-major index in the global tensor of the output's element number `element`.
// `shape` is the output's shape.
int64_t IndexOf(const RandomDraw& draw, const Shape& shape, int64_t element);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_RANDOM_DRAW_H_
