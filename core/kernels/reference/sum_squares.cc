#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status SumSquares(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  double sum = 0;
  ForEachIndex<1>(x.shape, {x.strides},
                  [&](int64_t i) { sum += x.As<double>()[i] * x.As<double>()[i]; });
  *call.outputs[0].As<double>() = sum;
  return absl::OkStatus();
}

}  // namespace

void AddSumSquaresKernels(KernelList& list) { AddLoops(list, "sum_squares", SumSquares); }

}  // namespace tessera::reference
