#include "core/kernels/interface/random_draw.h"

#include <vector>

namespace tessera {

std::optional<RandomDraw> TakeDraw(const Shape& shape, Attributes& attributes) {
  std::optional<RandomDraw> draw = DrawOf(shape, attributes);
  if (!draw.has_value()) return draw;
  Attributes work;
  for (const auto& [name, value] : attributes.entries()) {
    if (name != "random_path" && name != "start" && name != "global_shape") work.Set(name, value);
  }
  attributes = work;
  return draw;
}

std::optional<RandomDraw> DrawOf(const Shape& shape, const Attributes& attributes) {
  if (!attributes.Has("random_path")) return std::nullopt;
  RandomDraw draw;
  draw.path = attributes.GetString("random_path");
  draw.start.assign(shape.size(), 0);
  draw.global = shape;
  if (attributes.Has("global_shape")) {
    const std::vector<int64_t>& start = attributes.GetInts("start");
    const std::vector<int64_t>& global = attributes.GetInts("global_shape");
    draw.start.assign(start.begin(), start.end());
    draw.global.assign(global.begin(), global.end());
  }
  return draw;
}

int64_t FirstIndex(const RandomDraw& draw) {
  const Strides strides = RowMajorStrides(draw.global);
  int64_t index = 0;
  for (size_t d = 0; d < strides.size(); ++d) index += draw.start[d] * strides[d];
  return index;
}

int64_t IndexOf(const RandomDraw& draw, const Shape& shape, int64_t element) {
  const Strides strides = RowMajorStrides(draw.global);
  const Shape& box = draw.box.has_value() ? *draw.box : shape;
  int64_t index = FirstIndex(draw), rest = draw.first + element;
  for (size_t d = strides.size(); d-- > 0;) {
    index += rest % box[d] * strides[d];
    rest /= box[d];
  }
  return index;
}

}  // namespace tessera
