#include "core/ops/picture_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::Status CheckPair(const InputCheck& check, const Attributes& attributes,
                       absl::string_view name, int64_t low) {
  RETURN_IF_ERROR(check.Has<std::vector<int64_t>>(name));
  const std::vector<int64_t>& pair = attributes.GetInts(name);
  const bool fits = std::all_of(pair.begin(), pair.end(), [&](int64_t number) {
    return number >= low && number <= kMostTaps;
  });
  if (pair.size() == 2 && fits) return absl::OkStatus();
  return check.Misfit(
      name, absl::StrCat("two integers from ", low, " to ", kMostTaps, ", along height and width"));
}

absl::Status CheckRankFour(const InputCheck& check, int input, const TensorType& type,
                           absl::string_view dims) {
  if (type.shape.size() == 4) return absl::OkStatus();
  return check.Misfit(input, absl::StrCat("of rank 4, ", dims));
}

absl::StatusOr<Shape> GradientShape(const InputCheck& check, absl::string_view dims) {
  ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
  if (shape.size() != 4) return check.Misfit("shape", absl::StrCat("of rank 4, ", dims));
  return shape;
}

absl::StatusOr<PictureWindows> CheckWindows(const InputCheck& check, const Attributes& attributes,
                                            const Shape& picture, int64_t height, int64_t width,
                                            bool dilates) {
  RETURN_IF_ERROR(CheckPair(check, attributes, "stride", 1));
  RETURN_IF_ERROR(CheckPair(check, attributes, "padding", 0));
  if (dilates) RETURN_IF_ERROR(CheckPair(check, attributes, "dilation", 1));
  const PictureWindows windows = WindowsOver(picture, attributes, height, width);
  // So that every window reaches the picture.
  const SlidingWindow &down = windows.vertical, &across = windows.horizontal;
  if (down.padding >= down.extent() || across.padding >= across.extent()) {
    return check.Misfit("padding", absl::StrCat("less than the window, which covers ",
                                                down.extent(), " x ", across.extent()));
  }
  return windows;
}

bool HasWindows(const PictureWindows& windows) {
  return windows.out_height > 0 && windows.out_width > 0;
}

std::string SizesThatFit(const PictureWindows& windows) {
  const auto smallest = [](const SlidingWindow& window) {
    return std::max<int64_t>(1, window.extent() - 2 * window.padding);
  };
  return absl::StrCat("of height ", smallest(windows.vertical), " and width ",
                      smallest(windows.horizontal), " or more, so that a window fits");
}

}  // namespace tessera
