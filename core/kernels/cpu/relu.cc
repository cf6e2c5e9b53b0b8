// relu and its gradient.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/relu.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/ops/relu.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

void ReluRun(const void* /*context*/, const void* const* inputs, void* output, int64_t count) {
  const float* const x = static_cast<const float*>(inputs[0]);
  float* const y = static_cast<float*>(output);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats v = access.Load(x + i);
    access.Store(hn::IfThenZeroElse(hn::Le(v, hn::Zero(FloatTag())), v), y + i);  // NaN stays.
  });
}

void ReluGradRun(const void* /*context*/, const void* const* inputs, void* output, int64_t count) {
  const float* const dy = static_cast<const float*>(inputs[ReluGradInput::kDy]);
  const float* const y = static_cast<const float*>(inputs[ReluGradInput::kY]);
  float* const dx = static_cast<float*>(output);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const auto passes = hn::Gt(access.Load(y + i), hn::Zero(FloatTag()));
    access.Store(hn::IfThenElseZero(passes, access.Load(dy + i)), dx + i);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(ReluRun);
HWY_EXPORT(ReluGradRun);

absl::Status Relu(const KernelCall& call) {
  RunElementwiseInF32(call.request.threads, call.inputs, call.outputs[0], nullptr,
                      HWY_DYNAMIC_DISPATCH(ReluRun));
  return absl::OkStatus();
}

absl::Status ReluGrad(const KernelCall& call) {
  RunElementwiseInF32(call.request.threads, call.inputs, call.outputs[0], nullptr,
                      HWY_DYNAMIC_DISPATCH(ReluGradRun));
  return absl::OkStatus();
}

}  // namespace

void AddReluKernels(KernelList& list) {
  list.Add("relu", "highway", Relu, kElementwise);
  list.Add("relu_grad", "highway", ReluGrad, kElementwise);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
