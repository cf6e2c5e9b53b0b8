// adamw_update: one pass over parameter, gradient and moments. It moves 28 bytes an element and is
// bound by memory, so it can use exact square roots and divisions.
//
// Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019), in the order of
// operations of torch.optim.AdamW. Terms that are the same for all elements are computed in double.
#include <cmath>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/adamw_update.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/update_steps.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/ops/adamw_update.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Updates `count` elements (docs/operators.md); new arrays may be the old ones.
template <typename T>
void UpdateElements(const AdamwStep& step, const float* p, const T* gradient, const float* m,
                    const float* v, float* new_p, float* new_m, float* new_v, int64_t count) {
  const FloatTag d;
  const Floats scale = hn::Set(d, step.scale), decay = hn::Set(d, step.decay);
  const Floats beta1 = hn::Set(d, step.beta1), beta2 = hn::Set(d, step.beta2);
  const Floats rest1 = hn::Set(d, step.rest1), rest2 = hn::Set(d, step.rest2);
  const Floats step_size = hn::Set(d, step.step_size), eps = hn::Set(d, step.eps);
  const Floats root_correction = hn::Set(d, step.root_correction);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats g = hn::Mul(access.Load(gradient + i), scale);
    const Floats m1 = hn::MulAdd(beta1, access.Load(m + i), hn::Mul(rest1, g));
    const Floats v1 = hn::MulAdd(beta2, access.Load(v + i), hn::Mul(hn::Mul(rest2, g), g));
    const Floats denominator = hn::Add(hn::Div(hn::Sqrt(v1), root_correction), eps);
    const Floats decayed = hn::Mul(access.Load(p + i), decay);
    access.Store(hn::NegMulAdd(step_size, hn::Div(m1, denominator), decayed), new_p + i);
    access.Store(m1, new_m + i);
    access.Store(v1, new_v + i);
  });
}

void AdamwRun(const AdamwStep& step, const float* p, DType dtype, const void* gradient,
              const float* m, const float* v, float* new_p, float* new_m, float* new_v,
              int64_t count) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    UpdateElements(step, p, static_cast<const T*>(gradient), m, v, new_p, new_m, new_v, count);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(AdamwRun);

// Returns the numbers that are the same for all elements of a step.
AdamwStep StepOf(const Attributes& attributes, double lr, float scale, int64_t step) {
  const double beta1 = attributes.GetDouble("beta1"), beta2 = attributes.GetDouble("beta2");
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(step));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(step));
  return {
      .scale = scale,
      .decay = static_cast<float>(1 - lr * attributes.GetDouble("weight_decay")),
      .beta1 = static_cast<float>(beta1),
      .beta2 = static_cast<float>(beta2),
      .rest1 = static_cast<float>(1 - beta1),
      .rest2 = static_cast<float>(1 - beta2),
      .step_size = static_cast<float>(lr / correction1),
      .root_correction = static_cast<float>(std::sqrt(correction2)),
      .eps = static_cast<float>(attributes.GetDouble("eps")),
  };
}

absl::Status AdamwUpdate(const KernelCall& call) {
  using Input = AdamwInput;
  const TensorView &p = call.inputs[Input::kParameter], &gradient = call.inputs[Input::kGradient];
  const TensorView &m = call.inputs[Input::kM], &v = call.inputs[Input::kV];
  const TensorView &new_p = call.outputs[AdamwOutput::kParameter],
                   &new_m = call.outputs[AdamwOutput::kM], &new_v = call.outputs[AdamwOutput::kV];
  if (*call.inputs[Input::kPredicate].As<uint8_t>() == 0) {
    KeepState(p, new_p);
    KeepState(m, new_m);
    KeepState(v, new_v);
    return absl::OkStatus();
  }
  const AdamwStep step =
      StepOf(call.request.attributes, *call.inputs[Input::kLr].As<float>(),
             *call.inputs[Input::kScale].As<float>(), *call.inputs[Input::kStep].As<int64_t>());
  ParallelFor(call.request.threads, p.elements(), 16384, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(AdamwRun)
    (step, p.As<float>() + begin, gradient.dtype, ElementAt(gradient.dtype, gradient.data, begin),
     m.As<float>() + begin, v.As<float>() + begin, new_p.As<float>() + begin,
     new_m.As<float>() + begin, new_v.As<float>() + begin, end - begin);
  });
  return absl::OkStatus();
}

}  // namespace

void AddAdamwUpdateKernels(KernelList& list) {
  list.Add("adamw_update", "highway", AdamwUpdate, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
