#include "core/ops/select.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status Select(const KernelCall& call) {
  const TensorView &condition = call.inputs[SelectInput::kCondition],
                   &a = call.inputs[SelectInput::kA], &b = call.inputs[SelectInput::kB];
  const TensorView& y = call.outputs[0];
  WithKeptType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ForEachIndex<4>(y.shape,
                    {BroadcastStrides(condition, y.shape), BroadcastStrides(a, y.shape),
                     BroadcastStrides(b, y.shape), y.strides},
                    [&](int64_t i, int64_t j, int64_t k, int64_t l) {
                      y.As<T>()[l] = condition.As<uint8_t>()[i] != 0 ? a.As<T>()[j] : b.As<T>()[k];
                    });
  });
  return absl::OkStatus();
}

}  // namespace

void AddSelectKernels(KernelList& list) { AddLoops(list, "select", Select); }

}  // namespace tessera::reference
