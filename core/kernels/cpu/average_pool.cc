// average_pool and its gradient. Threads share rows of the result, and vectors are along the
// channels. Elements are added in the order of their positions, in f32, and rounded once.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/average_pool.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/pooling.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/ops/sliding_window.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Elements [begin, end) of a row or a column.
struct Range {
  int64_t begin, end;
};

// Sets to[c] to the sum of from[i][j][c] over a rectangle, divided by `count`. Rows have `width`
// elements of `channels`.
template <typename T>
HWY_INLINE void AverageOf(const T* from, int64_t width, int64_t channels, Range rows, Range columns,
                          float count, T* to) {
  ForEachVector(channels, [=](auto access, int64_t c) HWY_ATTR {
    const FloatTag d;
    Floats sum = hn::Zero(d);
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      for (int64_t j = columns.begin; j < columns.end; ++j) {
        sum = hn::Add(sum, access.Load(from + (i * width + j) * channels + c));
      }
    }
    access.Store(hn::Div(sum, hn::Set(d, count)), to + c);
  });
}

// Computes a row of averages of the picture x.
template <typename T>
void AverageRow(const T* x, const PictureWindows& windows, int64_t channels, int64_t row, T* y) {
  const auto read = [](const SlidingWindow& window, int64_t i, int64_t size) {
    return Range{window.ElementAt(i, window.FirstTap(i)),
                 window.ElementAt(i, window.EndTap(i, size))};
  };
  const Range rows = read(windows.vertical, row, windows.height);
  for (int64_t column = 0; column < windows.out_width; ++column) {
    AverageOf(x, windows.width, channels, rows, read(windows.horizontal, column, windows.width),
              static_cast<float>(windows.taps()), y + column * channels);
  }
}

// Computes a row of the gradient of a picture, from the gradients dy of its averages.
template <typename T>
void GradientRow(const T* dy, const PictureWindows& windows, int64_t channels, int64_t row, T* dx) {
  const auto reading = [](const SlidingWindow& window, int64_t i, int64_t count) {
    return Range{window.FirstWindow(i), window.EndWindow(i, count)};
  };
  const Range rows = reading(windows.vertical, row, windows.out_height);
  for (int64_t column = 0; column < windows.width; ++column) {
    AverageOf(dy, windows.out_width, channels, rows,
              reading(windows.horizontal, column, windows.out_width),
              static_cast<float>(windows.taps()), dx + column * channels);
  }
}

void AveragePoolRow(DType dtype, const void* x, const PictureWindows& windows, int64_t channels,
                    int64_t row, void* y) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    AverageRow(static_cast<const T*>(x), windows, channels, row, static_cast<T*>(y));
  });
}

void AveragePoolGradRow(DType dtype, const void* dy, const PictureWindows& windows,
                        int64_t channels, int64_t row, void* dx) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    GradientRow(static_cast<const T*>(dy), windows, channels, row, static_cast<T*>(dx));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(AveragePoolRow);
HWY_EXPORT(AveragePoolGradRow);

absl::Status AveragePool(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const PictureWindows windows = PoolingWindows(x.shape, call.request.attributes);
  const int64_t channels = x.shape[3];
  ForEachResultRow(call, y.shape, windows, [&](int64_t picture, int64_t row, int64_t offset) {
    HWY_DYNAMIC_DISPATCH(AveragePoolRow)
    (x.dtype, ElementAt(x.dtype, x.data, picture * windows.height * windows.width * channels),
     windows, channels, row, ElementAt(y.dtype, y.data, offset));
  });
  return absl::OkStatus();
}

absl::Status AveragePoolGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &dx = call.outputs[0];
  const PictureWindows windows = PoolingWindows(dx.shape, call.request.attributes);
  const int64_t channels = dx.shape[3];
  ForEachResultRow(call, dx.shape, windows, [&](int64_t picture, int64_t row, int64_t offset) {
    const int64_t pooled = picture * windows.out_height * windows.out_width * channels;
    HWY_DYNAMIC_DISPATCH(AveragePoolGradRow)
    (dy.dtype, ElementAt(dy.dtype, dy.data, pooled), windows, channels, row,
     ElementAt(dx.dtype, dx.data, offset));
  });
  return absl::OkStatus();
}

}  // namespace

void AddAveragePoolKernels(KernelList& list) {
  list.Add("average_pool", "highway", AveragePool, kRowMajor);
  list.Add("average_pool_grad", "highway", AveragePoolGrad, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
