// Functions of one element.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/unary.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <typename Op>
void RunOp(const Op& op, const void* const* inputs, void* output, int64_t count) {
  const float* const x = static_cast<const float*>(inputs[0]);
  float* const y = static_cast<float*>(output);
  ForEachVector(
      count, [=](auto access, int64_t i) HWY_ATTR { access.Store(op(access.Load(x + i)), y + i); });
}

// Defines one function for each operator, which RunElementwise calls for a run.
#define TESSERA_UNARY(name, expression)                                            \
  struct name##Op {                                                                \
    HWY_INLINE Floats operator()(Floats x) const { return expression; }            \
  };                                                                               \
  void name##Run(const void* /*context*/, const void* const* inputs, void* output, \
                 int64_t count) {                                                  \
    RunOp(name##Op(), inputs, output, count);                                      \
  }
TESSERA_UNARY(Exp, HWY_NAMESPACE::Exp(x))
TESSERA_UNARY(Log, HWY_NAMESPACE::Log(x))
TESSERA_UNARY(Sqrt, hn::Sqrt(x))
// Both are rounded exactly; the processor's own approximation of 1 / sqrt is not used.
TESSERA_UNARY(Rsqrt, hn::Div(SetF(1.0f), hn::Sqrt(x)))
TESSERA_UNARY(Reciprocal, hn::Div(SetF(1.0f), x))
TESSERA_UNARY(Negate, hn::Neg(x))
TESSERA_UNARY(Square, hn::Mul(x, x))
TESSERA_UNARY(Tanh, HWY_NAMESPACE::Tanh(x))
TESSERA_UNARY(Sigmoid, HWY_NAMESPACE::Sigmoid(x))
#undef TESSERA_UNARY

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

#define TESSERA_UNARY(name)                                                          \
  HWY_EXPORT(name##Run);                                                             \
  absl::Status name(const KernelCall& call) {                                        \
    RunElementwiseInF32(call.request.threads, call.inputs, call.outputs[0], nullptr, \
                        HWY_DYNAMIC_DISPATCH(name##Run));                            \
    return absl::OkStatus();                                                         \
  }
TESSERA_UNARY(Exp)
TESSERA_UNARY(Log)
TESSERA_UNARY(Sqrt)
TESSERA_UNARY(Rsqrt)
TESSERA_UNARY(Reciprocal)
TESSERA_UNARY(Negate)
TESSERA_UNARY(Square)
TESSERA_UNARY(Tanh)
TESSERA_UNARY(Sigmoid)
#undef TESSERA_UNARY

}  // namespace

void AddUnaryKernels(KernelList& list) {
  list.Add("exp", "highway", Exp, kElementwise);
  list.Add("log", "highway", Log, kElementwise);
  list.Add("sqrt", "highway", Sqrt, kElementwise);
  list.Add("rsqrt", "highway", Rsqrt, kElementwise);
  list.Add("reciprocal", "highway", Reciprocal, kElementwise);
  list.Add("negate", "highway", Negate, kElementwise);
  list.Add("square", "highway", Square, kElementwise);
  list.Add("tanh", "highway", Tanh, kElementwise);
  list.Add("sigmoid", "highway", Sigmoid, kElementwise);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
