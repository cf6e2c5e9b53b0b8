// The checks that shape rules of convolutions and poolings have in common.
#ifndef TESSERA_CORE_OPS_PICTURE_CHECK_H_
#define TESSERA_CORE_OPS_PICTURE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/attributes.h"
#include "core/ops/input_check.h"
#include "core/ops/sliding_window.h"
#include "core/tensor/shape.h"

namespace tessera {

// The largest size, stride, padding or dilation of a window, so that no product of two overflows.
inline constexpr int64_t kMostTaps = int64_t{1} << 20;

// Checks for an attribute with two numbers, for height and width, that are at least `low` and
// at most kMostTaps.
absl::Status CheckPair(const InputCheck& check, const Attributes& attributes,
                       absl::string_view name, int64_t low);

// The dimensions of pictures, for error messages.
inline constexpr absl::string_view kPictureDims = "[batch, height, width, channels]";

// Checks for rank 4. `dims` names the dimensions.
absl::Status CheckRankFour(const InputCheck& check, int input, const TensorType& type,
                           absl::string_view dims);

// Returns the attribute `shape`, the shape of a gradient. `dims` names its four dimensions.
absl::StatusOr<Shape> GradientShape(const InputCheck& check, absl::string_view dims);

// Returns the windows of height x width taps (each at least 1 and at most kMostTaps) over pictures
// of shape `picture`, after checking the attributes `stride`, `padding` and, if `dilates`,
// `dilation`. There may be no windows: the caller reports which input or attribute is too small.
absl::StatusOr<PictureWindows> CheckWindows(const InputCheck& check, const Attributes& attributes,
                                            const Shape& picture, int64_t height, int64_t width,
                                            bool dilates);
bool HasWindows(const PictureWindows& windows);
// Returns the sizes that pictures must have so that a window fits, for an error message.
std::string SizesThatFit(const PictureWindows& windows);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_PICTURE_CHECK_H_
