// Functions that max_pool and average_pool have in common. Each pools the windows of each picture
// and of each channel by itself.
#ifndef TESSERA_CORE_OPS_POOLING_H_
#define TESSERA_CORE_OPS_POOLING_H_

#include "absl/status/statusor.h"
#include "core/graph/attributes.h"
#include "core/ops/input_check.h"
#include "core/ops/ops.h"
#include "core/ops/sliding_window.h"
#include "core/tensor/shape.h"

namespace tessera {

// The dimensions that can be split.
inline constexpr int kPoolingDims[] = {0, 3};  // batch, channels

// As CheckWindows (picture_check.h), with the attribute `window`.
absl::StatusOr<PictureWindows> CheckPoolingWindows(const InputCheck& check,
                                                   const Attributes& attributes,
                                                   const Shape& picture);

// Returns the shape of the pooled pictures.
Shape PooledShape(const Shape& picture, const PictureWindows& windows);

Attributes PoolingAttributes(const PoolingOptions& options);

// Returns the attributes of a pooling, or of its gradient, as those of a gradient of shape `shape`.
Attributes PoolingGradAttributes(Attributes attributes, const Shape& shape);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_POOLING_H_
