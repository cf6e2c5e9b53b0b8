// Access to tensors of rank 4, and loops over windows of pictures.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_PICTURES_H_
#define TESSERA_CORE_KERNELS_REFERENCE_PICTURES_H_

#include <cstdint>

#include "core/ops/sliding_window.h"
#include "core/tensor/tensor_view.h"

namespace tessera::reference {

// The elements of a tensor of rank 4: pictures [batch, height, width, channels], or the weight of a
// convolution.
template <typename T>
struct Elements4 {
  const TensorView& view;

  T& operator()(int64_t i, int64_t j, int64_t k, int64_t l) const {
    const Strides& strides = view.strides;
    return view.As<T>()[i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3]];
  }
};

// Calls body(row, column) for each window, in row-major order.
template <typename Body>
void ForEachWindow(const PictureWindows& windows, const Body& body) {
  for (int64_t row = 0; row < windows.out_height; ++row) {
    for (int64_t column = 0; column < windows.out_width; ++column) body(row, column);
  }
}

// Calls body(tap row, tap column, picture row, picture column) for each element of the picture that
// the window (row, column) reads, in row-major order.
template <typename Body>
void ForEachTap(const PictureWindows& windows, int64_t row, int64_t column, const Body& body) {
  const SlidingWindow &down = windows.vertical, &across = windows.horizontal;
  for (int64_t i = 0; i < down.taps; ++i) {
    for (int64_t j = 0; j < across.taps; ++j) {
      const int64_t y = down.ElementAt(row, i), x = across.ElementAt(column, j);
      if (y >= 0 && y < windows.height && x >= 0 && x < windows.width) body(i, j, y, x);
    }
  }
}

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_PICTURES_H_
