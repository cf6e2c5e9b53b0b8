#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/reduction.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status ReduceSum(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Reduction reduction(call.request.attributes);
  ForEachIndex<2>(reduction.Kept(x.shape),
                  {reduction.Kept(x.strides), reduction.KeptOfOutput(y.strides)},
                  [&](int64_t first, int64_t j) {
                    double sum = 0;
                    ForEachIndex<1>(reduction.Reduced(x.shape), {reduction.Reduced(x.strides)},
                                    [&](int64_t i) { sum += x.As<double>()[first + i]; });
                    y.As<double>()[j] = sum;
                  });
  return absl::OkStatus();
}

}  // namespace

void AddReduceSumKernels(KernelList& list) { AddLoops(list, "reduce_sum", ReduceSum); }

}  // namespace tessera::reference
