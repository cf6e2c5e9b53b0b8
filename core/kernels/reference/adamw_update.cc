// Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019), in the order of
// operations of torch.optim.AdamW.
#include "core/ops/adamw_update.h"

#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status AdamwUpdate(const KernelCall &call) {
  using Input = AdamwInput;
  const TensorView &p = call.inputs[Input::kParameter], &gradient = call.inputs[Input::kGradient];
  const TensorView &m = call.inputs[Input::kM], &v = call.inputs[Input::kV];
  const TensorView &new_p = call.outputs[AdamwOutput::kParameter],
                   &new_m = call.outputs[AdamwOutput::kM], &new_v = call.outputs[AdamwOutput::kV];
  const double lr = *call.inputs[Input::kLr].As<double>(),
               scale = *call.inputs[Input::kScale].As<double>();
  const auto step = static_cast<double>(*call.inputs[Input::kStep].As<int64_t>());
  const bool update = *call.inputs[Input::kPredicate].As<uint8_t>() != 0;

  const Attributes &attributes = call.request.attributes;
  const double beta1 = attributes.GetDouble("beta1"), beta2 = attributes.GetDouble("beta2");
  const double eps = attributes.GetDouble("eps");
  const double weight_decay = attributes.GetDouble("weight_decay");
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);

  ForEachIndex<7>(p.shape,
                  {p.strides, gradient.strides, m.strides, v.strides, new_p.strides, new_m.strides,
                   new_v.strides},
                  [&](int64_t p_offset, int64_t g_offset, int64_t m_offset, int64_t v_offset,
                      int64_t new_p_offset, int64_t new_m_offset, int64_t new_v_offset) {
                    const double old_p = p.As<double>()[p_offset];
                    const double old_m = m.As<double>()[m_offset], old_v = v.As<double>()[v_offset];
                    const double g = gradient.As<double>()[g_offset] * scale;
                    const double decayed = old_p - lr * weight_decay * old_p;
                    const double next_m = beta1 * old_m + (1 - beta1) * g;
                    const double next_v = beta2 * old_v + (1 - beta2) * g * g;
                    const double next_p =
                        decayed - lr / correction1 * next_m /
                                      (std::sqrt(next_v) / std::sqrt(correction2) + eps);
                    new_p.As<double>()[new_p_offset] = update ? next_p : old_p;
                    new_m.As<double>()[new_m_offset] = update ? next_m : old_m;
                    new_v.As<double>()[new_v_offset] = update ? next_v : old_v;
                  });
  return absl::OkStatus();
}

}  // namespace

void AddAdamwUpdateKernels(KernelList &list) { AddLoops(list, "adamw_update", AdamwUpdate); }

}  // namespace tessera::reference
