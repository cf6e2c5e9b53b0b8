// The windows that convolutions and poolings slide over pictures. Pictures are [batch, height,
// width, channels].
#ifndef TESSERA_CORE_OPS_SLIDING_WINDOW_H_
#define TESSERA_CORE_OPS_SLIDING_WINDOW_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/attributes.h"

namespace tessera {

// Windows along one dimension. Window i starts at element i * stride - padding; a window may reach
// into the padding, `padding` elements on both sides of the dimension.
struct SlidingWindow {
  int64_t taps = 1;  // the elements that a window reads
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;  // from one tap to the next

  // Returns the distance from the first tap to the end of the last one.
  int64_t extent() const { return (taps - 1) * dilation + 1; }
  // Returns how many windows fit into a padded dimension of `size` elements; 0 if none does, or if
  // there is no element.
  int64_t CountIn(int64_t size) const {
    const int64_t room = size + 2 * padding - extent();
    return size < 1 || room < 0 ? 0 : room / stride + 1;
  }
  // Returns the element that a tap reads. It is padding if it is not in [0, size).
  int64_t ElementAt(int64_t window, int64_t tap) const {
    return window * stride - padding + tap * dilation;
  }
  // Returns the tap by which a window reads an element, without dilation.
  int64_t TapAt(int64_t element, int64_t window) const {
    return element + padding - window * stride;
  }
  // Returns the window whose tap `tap` reads an element, or -1 if it is none of `count` windows.
  int64_t WindowReading(int64_t element, int64_t tap, int64_t count) const {
    const int64_t start = element + padding - tap * dilation;
    if (start < 0 || start % stride != 0 || start / stride >= count) return -1;
    return start / stride;
  }
  // Return, without dilation, the first of `count` windows that reads an element, and the window
  // after the last one.
  int64_t FirstWindow(int64_t element) const {
    const int64_t start = std::max<int64_t>(0, element + padding - taps + 1);
    return (start + stride - 1) / stride;
  }
  int64_t EndWindow(int64_t element, int64_t count) const {
    return std::min(count, (element + padding) / stride + 1);
  }
  // Return the first tap of a window that reads an element of a dimension of `size`, and the tap
  // after the last one.
  int64_t FirstTap(int64_t window) const {
    const int64_t before = std::max<int64_t>(0, -ElementAt(window, 0));
    return std::min(taps, (before + dilation - 1) / dilation);
  }
  int64_t EndTap(int64_t window, int64_t size) const {
    const int64_t within = std::max<int64_t>(0, size - ElementAt(window, 0));
    return std::min(taps, (within + dilation - 1) / dilation);
  }
};

// The windows of a picture: out_height x out_width of them.
struct PictureWindows {
  int64_t height = 0, width = 0;  // of the picture
  int64_t out_height = 0, out_width = 0;
  SlidingWindow vertical, horizontal;

  int64_t taps() const { return vertical.taps * horizontal.taps; }
};

// Returns the windows of height x width taps over pictures of shape `picture`. The attributes
// `stride`, `padding` and, if it is there, `dilation` have a number for the height and one for the
// width.
inline PictureWindows WindowsOver(absl::Span<const int64_t> picture, const Attributes& attributes,
                                  int64_t height, int64_t width) {
  const auto along = [&](size_t i, int64_t taps) {
    return SlidingWindow{
        .taps = taps,
        .stride = attributes.GetInts("stride")[i],
        .padding = attributes.GetInts("padding")[i],
        .dilation = attributes.Has("dilation") ? attributes.GetInts("dilation")[i] : 1};
  };
  PictureWindows windows;
  windows.vertical = along(0, height);
  windows.horizontal = along(1, width);
  windows.height = picture[1];
  windows.width = picture[2];
  windows.out_height = windows.vertical.CountIn(windows.height);
  windows.out_width = windows.horizontal.CountIn(windows.width);
  return windows;
}

// Returns the windows of a pooling, whose attribute `window` is their height and width.
inline PictureWindows PoolingWindows(absl::Span<const int64_t> picture,
                                     const Attributes& attributes) {
  const std::vector<int64_t>& window = attributes.GetInts("window");
  return WindowsOver(picture, attributes, window[0], window[1]);
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_SLIDING_WINDOW_H_
