#include "core/ops/zero_elsewhere.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status ZeroElsewhere(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Shape start = StartInOutput(call.input_regions, call.output_regions, x.shape.size());
  int64_t offset = 0;
  for (size_t d = 0; d < start.size(); ++d) offset += start[d] * y.strides[d];
  WithKeptType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ForEachIndex<1>(y.shape, {y.strides}, [&](int64_t i) { y.As<T>()[i] = 0; });
    ForEachIndex<2>(x.shape, {x.strides, y.strides},
                    [&](int64_t i, int64_t j) { y.As<T>()[offset + j] = x.As<T>()[i]; });
  });
  return absl::OkStatus();
}

}  // namespace

void AddZeroElsewhereKernels(KernelList& list) { AddLoops(list, "zero_elsewhere", ZeroElsewhere); }

}  // namespace tessera::reference
