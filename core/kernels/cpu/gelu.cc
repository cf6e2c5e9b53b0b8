// gelu(x) = x P(x), where P is the normal distribution function ("none") or its approximation by a
// sigmoid ("tanh": (1 + tanh(u)) / 2 = sigmoid(2 u)).
//
// Both are computed without cancellation, on the negative side from erfc and exp(2 u) alone, so the
// error is a few units in the last place everywhere.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/gelu.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/ops/gelu.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Returns P(x), and sets `bell` to exp(-x^2 / 2), its density times sqrt(2 pi).
HWY_INLINE Floats NormalDistribution(Floats x, Floats& bell) {
  const Floats magnitude = hn::Abs(x);
  // Computes x^2 in two parts, because its rounding error alone would cost 50 units in the last
  // place at |x| = 10.
  const Floats square = hn::Mul(x, x);
  const Floats rest = hn::MulSub(x, x, square);
  const Floats half = SetF(-0.5f);
  const Floats e = ExpOfNegative(hn::Mul(square, half));
  // Beyond 14.5 both are 0 in fp32, and the square may be infinite.
  bell = hn::IfThenZeroElse(hn::Gt(magnitude, SetF(14.5f)), hn::MulAdd(hn::Mul(rest, half), e, e));
  const Floats near = AtMost(SetF(14.5f), magnitude);
  const Floats tail = hn::Mul(hn::Mul(bell, SetF(0.5f)), ScaledErfcOfRoot(near));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(FloatTag())), tail, hn::Sub(SetF(1.0f), tail));
}

struct GeluErf {
  static HWY_INLINE Floats Value(Floats x) {
    Floats bell;
    const Floats p = NormalDistribution(x, bell);
    return hn::Mul(x, p);
  }
  static HWY_INLINE Floats Slope(Floats x) {
    Floats bell;
    const Floats p = NormalDistribution(x, bell);
    return hn::MulAdd(hn::Mul(x, SetF(0.398942280401432678f)), bell, p);
  }
};

struct GeluTanh {
  // exp(-2 u) for u = sqrt(2 / pi) (x + 0.044715 x^3).
  static HWY_INLINE Floats ExpOfArgument(Floats x, Floats square) {
    const Floats u =
        hn::Mul(x, hn::MulAdd(square, SetF(0.0356774081363001f), SetF(0.797884560802865356f)));
    return Exp(AtMost(SetF(80.0f), hn::Mul(u, SetF(-2.0f))));
  }
  static HWY_INLINE Floats Value(Floats x) {
    // Bounds x where the result is 0, so that it is not computed as a large number times a small
    // one.
    const Floats bounded = AtLeast(SetF(-20.0f), x);
    return hn::Div(bounded, hn::Add(SetF(1.0f), ExpOfArgument(bounded, hn::Mul(bounded, bounded))));
  }
  static HWY_INLINE Floats Slope(Floats unbounded) {
    const Floats x = AtLeast(SetF(-20.0f), AtMost(SetF(20.0f), unbounded));
    const Floats square = hn::Mul(x, x);
    const Floats e = ExpOfArgument(x, square);
    const Floats sigmoid = hn::Div(SetF(1.0f), hn::Add(SetF(1.0f), e));
    // d(2 u) / dx, and 1 - sigmoid = e * sigmoid.
    const Floats slope = hn::MulAdd(square, SetF(0.2140644488178006f), SetF(1.595769121605730711f));
    const Floats change = hn::Mul(hn::Mul(x, slope), hn::Mul(e, sigmoid));
    return hn::MulAdd(sigmoid, change, sigmoid);
  }
};

template <typename Gelu>
void Run(const void* const* inputs, void* output, int64_t count) {
  const float* const x = static_cast<const float*>(inputs[0]);
  float* const y = static_cast<float*>(output);
  ForEachVector(count, [=](auto access, int64_t i)
                           HWY_ATTR { access.Store(Gelu::Value(access.Load(x + i)), y + i); });
}

template <typename Gelu>
void RunGrad(const void* const* inputs, void* output, int64_t count) {
  const float* const dy = static_cast<const float*>(inputs[GeluGradInput::kDy]);
  const float* const x = static_cast<const float*>(inputs[GeluGradInput::kX]);
  float* const dx = static_cast<float*>(output);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    access.Store(hn::Mul(access.Load(dy + i), Gelu::Slope(access.Load(x + i))), dx + i);
  });
}

void GeluErfRun(const void*, const void* const* inputs, void* output, int64_t count) {
  Run<GeluErf>(inputs, output, count);
}
void GeluTanhRun(const void*, const void* const* inputs, void* output, int64_t count) {
  Run<GeluTanh>(inputs, output, count);
}
void GeluErfGradRun(const void*, const void* const* inputs, void* output, int64_t count) {
  RunGrad<GeluErf>(inputs, output, count);
}
void GeluTanhGradRun(const void*, const void* const* inputs, void* output, int64_t count) {
  RunGrad<GeluTanh>(inputs, output, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(GeluErfRun);
HWY_EXPORT(GeluTanhRun);
HWY_EXPORT(GeluErfGradRun);
HWY_EXPORT(GeluTanhGradRun);

bool IsTanh(const KernelCall& call) {
  return call.request.attributes.GetString("approximate") == "tanh";
}

absl::Status Gelu(const KernelCall& call) {
  RunElementwiseInF32(
      call.request.threads, call.inputs, call.outputs[0], nullptr,
      IsTanh(call) ? HWY_DYNAMIC_DISPATCH(GeluTanhRun) : HWY_DYNAMIC_DISPATCH(GeluErfRun));
  return absl::OkStatus();
}

absl::Status GeluGrad(const KernelCall& call) {
  RunElementwiseInF32(
      call.request.threads, call.inputs, call.outputs[0], nullptr,
      IsTanh(call) ? HWY_DYNAMIC_DISPATCH(GeluTanhGradRun) : HWY_DYNAMIC_DISPATCH(GeluErfGradRun));
  return absl::OkStatus();
}

}  // namespace

void AddGeluKernels(KernelList& list) {
  list.Add("gelu", "highway", Gelu, kElementwise);
  list.Add("gelu_grad", "highway", GeluGrad, kElementwise);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
