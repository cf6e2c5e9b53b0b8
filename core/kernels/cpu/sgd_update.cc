// sgd_update: one pass over parameter, gradient and momentum.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/sgd_update.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/update_steps.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/ops/sgd_update.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// `m` and `new_m` are nullptr where there is no momentum.
template <typename T>
void UpdateElements(const SgdStep& step, const float* p, const T* gradient, const float* m,
                    float* new_p, float* new_m, int64_t count) {
  const FloatTag d;
  const Floats lr = hn::Set(d, step.lr), scale = hn::Set(d, step.scale);
  const Floats momentum = hn::Set(d, step.momentum), decay = hn::Set(d, step.weight_decay);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats old_p = access.Load(p + i);
    Floats g = hn::MulAdd(decay, old_p, hn::Mul(access.Load(gradient + i), scale));
    if (m != nullptr) {
      g = hn::MulAdd(momentum, access.Load(m + i), g);
      access.Store(g, new_m + i);
    }
    access.Store(hn::NegMulAdd(lr, g, old_p), new_p + i);
  });
}

void SgdRun(const SgdStep& step, const float* p, DType dtype, const void* gradient, const float* m,
            float* new_p, float* new_m, int64_t count) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    UpdateElements(step, p, static_cast<const T*>(gradient), m, new_p, new_m, count);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(SgdRun);

absl::Status SgdUpdate(const KernelCall& call) {
  using Input = SgdInput;
  const Attributes& attributes = call.request.attributes;
  const bool has_momentum = call.outputs.size() > 1;
  const TensorView &p = call.inputs[Input::kParameter],
                   &new_p = call.outputs[SgdOutput::kParameter];
  if (*call.inputs[Input::Predicate(has_momentum)].As<uint8_t>() == 0) {
    KeepState(p, new_p);
    if (has_momentum) KeepState(call.inputs[Input::kMomentum], call.outputs[SgdOutput::kMomentum]);
    return absl::OkStatus();
  }
  const SgdStep step = {*call.inputs[Input::Lr(has_momentum)].As<float>(),
                        *call.inputs[Input::Scale(has_momentum)].As<float>(),
                        static_cast<float>(attributes.GetDouble("momentum")),
                        static_cast<float>(attributes.GetDouble("weight_decay"))};
  const TensorView& gradient = call.inputs[Input::kGradient];
  const float* const m = has_momentum ? call.inputs[Input::kMomentum].As<float>() : nullptr;
  float* const new_m = has_momentum ? call.outputs[SgdOutput::kMomentum].As<float>() : nullptr;
  ParallelFor(call.request.threads, p.elements(), 16384, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SgdRun)
    (step, p.As<float>() + begin, gradient.dtype, ElementAt(gradient.dtype, gradient.data, begin),
     has_momentum ? m + begin : nullptr, new_p.As<float>() + begin,
     has_momentum ? new_m + begin : nullptr, end - begin);
  });
  return absl::OkStatus();
}

}  // namespace

void AddSgdUpdateKernels(KernelList& list) {
  list.Add("sgd_update", "highway", SgdUpdate, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
