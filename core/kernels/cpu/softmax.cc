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
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

void SoftmaxRow(const float* x, float* y, int64_t count) {
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

void SoftmaxGradRow(const float* dy, const float* y, float* dx, int64_t count) {
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

// A long column is summed in blocks of so many elements, and over blocks.
constexpr int64_t kBlock = 128;

// Columns of a [length, inner] matrix.
void SoftmaxColumns(const float* x, float* y, int64_t length, int64_t inner) {
  ForEachVector(inner, [=](auto access, int64_t i) HWY_ATTR {
    Floats max = SetF(-std::numeric_limits<float>::infinity());
    for (int64_t j = 0; j < length; ++j) max = hn::Max(max, access.Load(x + j * inner + i));
    Floats sum = SetF(0.0f);
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t end = HWY_MIN(length, begin + kBlock);
      Floats part = SetF(0.0f);
      for (int64_t j = begin; j < end; ++j) {
        const Floats e = ExpOfNegative(hn::Sub(access.Load(x + j * inner + i), max));
        part = hn::Add(part, e);
        access.Store(e, y + j * inner + i);
      }
      sum = hn::Add(sum, part);
    }
    for (int64_t j = 0; j < length; ++j) {
      float* const at = y + j * inner + i;
      access.Store(hn::Div(access.Load(at), sum), at);
    }
  });
}

void SoftmaxGradColumns(const float* dy, const float* y, float* dx, int64_t length, int64_t inner) {
  ForEachVector(inner, [=](auto access, int64_t i) HWY_ATTR {
    Floats dot = SetF(0.0f);
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t end = HWY_MIN(length, begin + kBlock);
      Floats part = SetF(0.0f);
      for (int64_t j = begin; j < end; ++j) {
        const int64_t at = j * inner + i;
        part = hn::MulAdd(access.Load(dy + at), access.Load(y + at), part);
      }
      dot = hn::Add(dot, part);
    }
    for (int64_t j = i; j < length * inner; j += inner) {
      access.Store(hn::Mul(access.Load(y + j), hn::Sub(access.Load(dy + j), dot)), dx + j);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SoftmaxGradRow);
HWY_EXPORT(SoftmaxColumns);
HWY_EXPORT(SoftmaxGradColumns);

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
  int64_t grain() const { return std::max<int64_t>(1, 8192 / (length * inner)); }
};

absl::Status Softmax(const KernelCall& call) {
  const Extents e(call);
  if (e.elements() == 0) return absl::OkStatus();
  const float* const x = call.inputs[0].As<float>();
  float* const y = call.outputs[0].As<float>();
  ParallelFor(call.request.threads, e.outer, e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * e.length * e.inner;
      if (e.inner == 1) {
        HWY_DYNAMIC_DISPATCH(SoftmaxRow)(x + at, y + at, e.length);
      } else {
        HWY_DYNAMIC_DISPATCH(SoftmaxColumns)(x + at, y + at, e.length, e.inner);
      }
    }
  });
  return absl::OkStatus();
}

absl::Status SoftmaxGrad(const KernelCall& call) {
  const Extents e(call);
  if (e.elements() == 0) return absl::OkStatus();
  const float *const dy = call.inputs[SoftmaxGradInput::kDy].As<float>(),
                     *const y = call.inputs[SoftmaxGradInput::kY].As<float>();
  float* const dx = call.outputs[0].As<float>();
  ParallelFor(call.request.threads, e.outer, e.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * e.length * e.inner;
      if (e.inner == 1) {
        HWY_DYNAMIC_DISPATCH(SoftmaxGradRow)(dy + at, y + at, dx + at, e.length);
      } else {
        HWY_DYNAMIC_DISPATCH(SoftmaxGradColumns)(dy + at, y + at, dx + at, e.length, e.inner);
      }
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
