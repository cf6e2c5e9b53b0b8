// max_pool and its gradient. Threads share rows of the result, and vectors are along the channels.
//
// The gradient is computed element by element from the windows that read the element, so windows
// may overlap and a sum is rounded to 16 bits once.
#include "core/ops/max_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/max_pool.cc"
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

// Positions in a window, as many as a vector has floats, and their bytes.
using PositionTag = hn::RebindToSigned<FloatTag>;
using Positions = hn::Vec<PositionTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;

HWY_INLINE void StorePositions(FullVector /*access*/, Positions v, uint8_t* to) {
  hn::StoreU(hn::DemoteTo(ByteTag(), v), ByteTag(), to);
}
HWY_INLINE void StorePositions(ShortVector access, Positions v, uint8_t* to) {
  HWY_ALIGN uint8_t lanes[kLanes];
  StorePositions(FullVector(), v, lanes);
  std::memcpy(to, lanes, static_cast<size_t>(access.count));
}
HWY_INLINE Positions LoadPositions(FullVector /*access*/, const uint8_t* from) {
  return hn::PromoteTo(PositionTag(), hn::LoadU(ByteTag(), from));
}
HWY_INLINE Positions LoadPositions(ShortVector access, const uint8_t* from) {
  HWY_ALIGN uint8_t lanes[kLanes] = {};
  std::memcpy(lanes, from, static_cast<size_t>(access.count));
  return LoadPositions(FullVector(), lanes);
}

// Computes the maxima of a row of windows, and their positions. x is the picture.
template <typename T>
void MaxOfRow(const T* x, const PictureWindows& windows, int64_t channels, int64_t row, T* y,
              uint8_t* index) {
  const SlidingWindow down = windows.vertical, across = windows.horizontal;
  const int64_t first_i = down.FirstTap(row), end_i = down.EndTap(row, windows.height);
  for (int64_t column = 0; column < windows.out_width; ++column) {
    const int64_t first_j = across.FirstTap(column), end_j = across.EndTap(column, windows.width);
    // The first tap's element, which may be padding.
    const int64_t corner = down.ElementAt(row, 0) * windows.width + across.ElementAt(column, 0);
    ForEachVector(channels, [=](auto access, int64_t c) HWY_ATTR {
      const auto load = [=](int64_t i, int64_t j) HWY_ATTR {
        return access.Load(x + (corner + i * windows.width + j) * channels + c);
      };
      const PositionTag d;
      Floats max = load(first_i, first_j);
      Positions at = hn::Set(d, static_cast<int32_t>(first_i * across.taps + first_j));
      for (int64_t i = first_i; i < end_i; ++i) {
        for (int64_t j = first_j; j < end_j; ++j) {
          const Floats v = load(i, j);
          // The first maximum and the first NaN stay.
          const auto stays = hn::Or(hn::Le(v, max), hn::IsNaN(max));
          max = hn::IfThenElse(stays, max, v);
          at = hn::IfThenElse(hn::RebindMask(d, stays), at,
                              hn::Set(d, static_cast<int32_t>(i * across.taps + j)));
        }
      }
      access.Store(max, y + column * channels + c);
      StorePositions(access, at, index + column * channels + c);
    });
  }
}

// Computes a row of the gradient. dy and `index` are those of the picture.
template <typename T>
void GradientOfRow(const T* dy, const uint8_t* index, const PictureWindows& windows,
                   int64_t channels, int64_t row, T* dx) {
  const SlidingWindow down = windows.vertical, across = windows.horizontal;
  const int64_t first_row = down.FirstWindow(row),
                end_row = down.EndWindow(row, windows.out_height);
  for (int64_t column = 0; column < windows.width; ++column) {
    const int64_t first_column = across.FirstWindow(column),
                  end_column = across.EndWindow(column, windows.out_width);
    ForEachVector(channels, [=](auto access, int64_t c) HWY_ATTR {
      Floats sum = hn::Zero(FloatTag());
      for (int64_t i = first_row; i < end_row; ++i) {
        for (int64_t j = first_column; j < end_column; ++j) {
          const int64_t at = (i * windows.out_width + j) * channels + c;
          const int64_t position = down.TapAt(row, i) * across.taps + across.TapAt(column, j);
          const auto is_max = hn::Eq(LoadPositions(access, index + at),
                                     hn::Set(PositionTag(), static_cast<int32_t>(position)));
          sum = hn::Add(
              sum, hn::IfThenElseZero(hn::RebindMask(FloatTag(), is_max), access.Load(dy + at)));
        }
      }
      access.Store(sum, dx + column * channels + c);
    });
  }
}

void MaxPoolRow(DType dtype, const void* x, const PictureWindows& windows, int64_t channels,
                int64_t row, void* y, uint8_t* index) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    MaxOfRow(static_cast<const T*>(x), windows, channels, row, static_cast<T*>(y), index);
  });
}

void MaxPoolGradRow(DType dtype, const void* dy, const uint8_t* index,
                    const PictureWindows& windows, int64_t channels, int64_t row, void* dx) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    GradientOfRow(static_cast<const T*>(dy), index, windows, channels, row, static_cast<T*>(dx));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(MaxPoolRow);
HWY_EXPORT(MaxPoolGradRow);

absl::Status MaxPool(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[MaxPoolOutput::kY],
                   &index = call.outputs[MaxPoolOutput::kIndex];
  const PictureWindows windows = PoolingWindows(x.shape, call.request.attributes);
  const int64_t channels = x.shape[3];
  ForEachResultRow(call, y.shape, windows, [&](int64_t picture, int64_t row, int64_t offset) {
    HWY_DYNAMIC_DISPATCH(MaxPoolRow)
    (x.dtype, ElementAt(x.dtype, x.data, picture * windows.height * windows.width * channels),
     windows, channels, row, ElementAt(y.dtype, y.data, offset), index.As<uint8_t>() + offset);
  });
  return absl::OkStatus();
}

absl::Status MaxPoolGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[MaxPoolGradInput::kDy],
                   &index = call.inputs[MaxPoolGradInput::kIndex], &dx = call.outputs[0];
  const PictureWindows windows = PoolingWindows(dx.shape, call.request.attributes);
  const int64_t channels = dx.shape[3];
  ForEachResultRow(call, dx.shape, windows, [&](int64_t picture, int64_t row, int64_t offset) {
    const int64_t pooled = picture * windows.out_height * windows.out_width * channels;
    HWY_DYNAMIC_DISPATCH(MaxPoolGradRow)
    (dy.dtype, ElementAt(dy.dtype, dy.data, pooled), index.As<uint8_t>() + pooled, windows,
     channels, row, ElementAt(dx.dtype, dx.data, offset));
  });
  return absl::OkStatus();
}

}  // namespace

void AddMaxPoolKernels(KernelList& list) {
  list.Add("max_pool", "highway", MaxPool, kRowMajor);
  list.Add("max_pool_grad", "highway", MaxPoolGrad, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
