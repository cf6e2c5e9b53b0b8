#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {

absl::Status SgdUpdate(const KernelCall& call) {
  const Attributes& attributes = call.request.attributes;
  const double momentum = attributes.GetDouble("momentum");
  const double weight_decay = attributes.GetDouble("weight_decay");
  // Without momentum there is no such state: input 2 is the learning rate.
  const bool has_momentum = momentum != 0;
  const TensorView &p = call.inputs[0], &gradient = call.inputs[1], &new_p = call.outputs[0];
  const TensorView& m = has_momentum ? call.inputs[2] : p;
  const TensorView& new_m = has_momentum ? call.outputs[1] : new_p;
  const size_t scalars = has_momentum ? 3 : 2;
  const double lr = *call.inputs[scalars].As<double>();
  const double scale = *call.inputs[scalars + 1].As<double>();
  const bool update = *call.inputs[scalars + 2].As<uint8_t>() != 0;

  ForEachIndex<5>(
      p.shape, {p.strides, gradient.strides, m.strides, new_p.strides, new_m.strides},
      [&](int64_t p_at, int64_t g_at, int64_t m_at, int64_t new_p_at, int64_t new_m_at) {
        const double old_p = p.As<double>()[p_at];
        const double old_m = has_momentum ? m.As<double>()[m_at] : 0;
        const double g = gradient.As<double>()[g_at] * scale + weight_decay * old_p;
        const double change = has_momentum ? momentum * old_m + g : g;
        new_p.As<double>()[new_p_at] = update ? old_p - lr * change : old_p;
        if (has_momentum) new_m.As<double>()[new_m_at] = update ? change : old_m;
      });
  return absl::OkStatus();
}

}  // namespace tessera::reference
