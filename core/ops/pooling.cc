#include "core/ops/pooling.h"

#include <vector>

#include "core/ops/picture_check.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<PictureWindows> CheckPoolingWindows(const InputCheck& check,
                                                   const Attributes& attributes,
                                                   const Shape& picture) {
  RETURN_IF_ERROR(CheckPair(check, attributes, "window", 1));
  const std::vector<int64_t>& window = attributes.GetInts("window");
  return CheckWindows(check, attributes, picture, window[0], window[1], /*dilates=*/false);
}

Shape PooledShape(const Shape& picture, const PictureWindows& windows) {
  return {picture[0], windows.out_height, windows.out_width, picture[3]};
}

Attributes PoolingAttributes(const PoolingOptions& options) {
  return {{"window", ShapeAttribute(options.window)},
          {"stride", ShapeAttribute(options.stride)},
          {"padding", ShapeAttribute(options.padding)}};
}

Attributes PoolingGradAttributes(Attributes attributes, const Shape& shape) {
  attributes.Set("shape", ShapeAttribute(shape));
  return attributes;
}

}  // namespace tessera
