#include "core/ops/relu.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status Relu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  ForEachIndex<2>(y.shape, {x.strides, y.strides}, [&](int64_t i, int64_t j) {
    const double value = x.As<double>()[i];
    y.As<double>()[j] = value <= 0 ? 0 : value;  // NaN stays.
  });
  return absl::OkStatus();
}

absl::Status ReluGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[ReluGradInput::kDy], &y = call.inputs[ReluGradInput::kY],
                   &dx = call.outputs[0];
  ForEachIndex<3>(dx.shape, {dy.strides, y.strides, dx.strides},
                  [&](int64_t i, int64_t j, int64_t k) {
                    dx.As<double>()[k] = y.As<double>()[j] > 0 ? dy.As<double>()[i] : 0;
                  });
  return absl::OkStatus();
}

}  // namespace

void AddReluKernels(KernelList& list) {
  AddLoops(list, "relu", Relu);
  AddLoops(list, "relu_grad", ReluGrad);
}

}  // namespace tessera::reference
