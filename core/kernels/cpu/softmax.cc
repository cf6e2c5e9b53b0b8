// softmax and its gradient. Along the last dimension a row is one array. Along another dimension, a
// vector holds consecutive rows, and its lanes are independent.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/softmax.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/softmax.h"
#include "core/tensor/convert.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Computes the softmax of `count` consecutive elements. In f32, exponentials are stored in y and
// then divided. In 16 bits storing would round them, so they are computed again before they are
// divided.
void SoftmaxOfRow(const float* x, float* y, int64_t count) {
  const Floats max = SetF(MaxOfFloats(x, count));
  double sum[1];
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        terms[0] = ExpOfNegative(hn::Sub(access.Load(x + i), max));
        access.Store(terms[0], y + i);
      },
      sum);
  const Floats total = SetF(static_cast<float>(sum[0]));
  ForEachVector(count, [=](auto access, int64_t i)
                           HWY_ATTR { access.Store(hn::Div(access.Load(y + i), total), y + i); });
}

template <typename Half>
void SoftmaxOfRow(const Half* x, Half* y, int64_t count) {
  const Floats max = SetF(MaxOfElements(x, count));
  double sum[1];
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms)
          HWY_ATTR { terms[0] = ExpOfNegative(hn::Sub(access.Load(x + i), max)); },
      sum);
  const Floats total = SetF(static_cast<float>(sum[0]));
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    access.Store(hn::Div(ExpOfNegative(hn::Sub(access.Load(x + i), max)), total), y + i);
  });
}

// dx = y * (dy - dot(dy, y)), the gradient of a row's softmax y.
template <typename T>
void GradientOfRow(const T* dy, const T* y, T* dx, int64_t count) {
  double sum[1];
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms)
          HWY_ATTR { terms[0] = hn::Mul(access.Load(dy + i), access.Load(y + i)); },
      sum);
  const Floats dot = SetF(static_cast<float>(sum[0]));
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    access.Store(hn::Mul(access.Load(y + i), hn::Sub(access.Load(dy + i), dot)), dx + i);
  });
}

// A long column is summed in blocks of this many elements, and then over blocks.
constexpr int64_t kBlock = 128;

// Computes the softmax of each column of a [length, inner] matrix.
template <typename T>
void SoftmaxOfColumns(const T* x, T* y, int64_t length, int64_t inner) {
  ForEachVector(inner, [=](auto access, int64_t i) HWY_ATTR {
    Floats max = SetF(-std::numeric_limits<float>::infinity());
    for (int64_t j = 0; j < length; ++j) max = hn::Max(max, access.Load(x + j * inner + i));
    Floats sum = SetF(0.0f);
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t end = HWY_MIN(length, begin + kBlock);
      Floats block_sum = SetF(0.0f);
      for (int64_t j = begin; j < end; ++j) {
        const Floats e = ExpOfNegative(hn::Sub(access.Load(x + j * inner + i), max));
        block_sum = hn::Add(block_sum, e);
        if constexpr (!kIsHalf<T>) access.Store(e, y + j * inner + i);
      }
      sum = hn::Add(sum, block_sum);
    }
    for (int64_t j = 0; j < length; ++j) {
      T* const row = y + j * inner + i;
      if constexpr (kIsHalf<T>) {
        const Floats e = ExpOfNegative(hn::Sub(access.Load(x + j * inner + i), max));
        access.Store(hn::Div(e, sum), row);
      } else {
        access.Store(hn::Div(access.Load(row), sum), row);
      }
    }
  });
}

// Computes the same for each column of [length, inner] matrices.
template <typename T>
void GradientOfColumns(const T* dy, const T* y, T* dx, int64_t length, int64_t inner) {
  ForEachVector(inner, [=](auto access, int64_t i) HWY_ATTR {
    Floats dot = SetF(0.0f);
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t end = HWY_MIN(length, begin + kBlock);
      Floats block_dot = SetF(0.0f);
      for (int64_t j = begin; j < end; ++j) {
        const int64_t offset = j * inner + i;
        block_dot = hn::MulAdd(access.Load(dy + offset), access.Load(y + offset), block_dot);
      }
      dot = hn::Add(dot, block_dot);
    }
    for (int64_t j = i; j < length * inner; j += inner) {
      access.Store(hn::Mul(access.Load(y + j), hn::Sub(access.Load(dy + j), dot)), dx + j);
    }
  });
}

// Computes the softmax of each column of a row-major [length, inner] matrix.
void SoftmaxMatrix(DType dtype, const void* x, void* y, int64_t length, int64_t inner) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    if (inner == 1) return SoftmaxOfRow(static_cast<const T*>(x), static_cast<T*>(y), length);
    SoftmaxOfColumns(static_cast<const T*>(x), static_cast<T*>(y), length, inner);
  });
}

void SoftmaxGradMatrix(DType dtype, const void* dy, const void* y, void* dx, int64_t length,
                       int64_t inner) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    const T *const from = static_cast<const T*>(dy), *const result = static_cast<const T*>(y);
    if (inner == 1) return GradientOfRow(from, result, static_cast<T*>(dx), length);
    GradientOfColumns(from, result, static_cast<T*>(dx), length, inner);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SoftmaxMatrix);
HWY_EXPORT(SoftmaxGradMatrix);

// A thread takes about this many elements at a time: fewer do not pay for the hand-over.
constexpr int64_t kGrainElements = 8192;

// The tensor as `outer` matrices [length, inner]; softmax runs along `length`.
struct Extents {
  int64_t outer = 1, length = 1, inner = 1;

  explicit Extents(const KernelCall& call) {
    const Shape& shape = call.outputs[0].shape;
    const auto axis = static_cast<size_t>(call.request.attributes.GetInt("axis"));
    for (size_t d = 0; d < shape.size(); ++d) {
      (d < axis ? outer : d == axis ? length : inner) *= shape[d];
    }
  }
  int64_t elements() const { return outer * length * inner; }
  // Returns how many of the `outer` matrices a thread takes at a time. There must be elements.
  int64_t grain() const { return std::max<int64_t>(1, kGrainElements / (length * inner)); }
};

absl::Status Softmax(const KernelCall& call) {
  const Extents e(call);
  if (e.elements() == 0) return absl::OkStatus();
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  ParallelFor(call.request.threads, e.outer, e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i * e.length * e.inner;
      HWY_DYNAMIC_DISPATCH(SoftmaxMatrix)
      (x.dtype, ElementAt(x.dtype, x.data, offset), ElementAt(x.dtype, y.data, offset), e.length,
       e.inner);
    }
  });
  return absl::OkStatus();
}

absl::Status SoftmaxGrad(const KernelCall& call) {
  const Extents e(call);
  if (e.elements() == 0) return absl::OkStatus();
  const TensorView &dy = call.inputs[SoftmaxGradInput::kDy], &y = call.inputs[SoftmaxGradInput::kY],
                   &dx = call.outputs[0];
  ParallelFor(call.request.threads, e.outer, e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t offset = i * e.length * e.inner;
      HWY_DYNAMIC_DISPATCH(SoftmaxGradMatrix)
      (y.dtype, ElementAt(y.dtype, dy.data, offset), ElementAt(y.dtype, y.data, offset),
       ElementAt(y.dtype, dx.data, offset), e.length, e.inner);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void AddSoftmaxKernels(KernelList& list) {
  list.Add("softmax", "highway", Softmax, kRowMajor);
  list.Add("softmax_grad", "highway", SoftmaxGrad, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
