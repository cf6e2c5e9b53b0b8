#include "core/ops/sgd_update.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status SgdUpdate(const KernelCall& call) {
  using Input = SgdInput;
  const Attributes& attributes = call.request.attributes;
  const double momentum = attributes.GetDouble("momentum");
  const double weight_decay = attributes.GetDouble("weight_decay");
  const bool has_momentum = momentum != 0;
  const TensorView &p = call.inputs[SgdInput::kParameter],
                   &gradient = call.inputs[SgdInput::kGradient],
                   &new_p = call.outputs[SgdOutput::kParameter];
  const TensorView& m = has_momentum ? call.inputs[SgdInput::kMomentum] : p;
  const TensorView& new_m = has_momentum ? call.outputs[SgdOutput::kMomentum] : new_p;
  const double lr = *call.inputs[Input::Lr(has_momentum)].As<double>();
  const double scale = *call.inputs[Input::Scale(has_momentum)].As<double>();
  const bool update = *call.inputs[Input::Predicate(has_momentum)].As<uint8_t>() != 0;

  ForEachIndex<5>(p.shape, {p.strides, gradient.strides, m.strides, new_p.strides, new_m.strides},
                  [&](int64_t p_offset, int64_t g_offset, int64_t m_offset, int64_t new_p_offset,
                      int64_t new_m_offset) {
                    const double old_p = p.As<double>()[p_offset];
                    const double old_m = has_momentum ? m.As<double>()[m_offset] : 0;
                    const double g = gradient.As<double>()[g_offset] * scale + weight_decay * old_p;
                    const double change = has_momentum ? momentum * old_m + g : g;
                    new_p.As<double>()[new_p_offset] = update ? old_p - lr * change : old_p;
                    if (has_momentum) new_m.As<double>()[new_m_offset] = update ? change : old_m;
                  });
  return absl::OkStatus();
}

}  // namespace

void AddSgdUpdateKernels(KernelList& list) { AddLoops(list, "sgd_update", SgdUpdate); }

}  // namespace tessera::reference
