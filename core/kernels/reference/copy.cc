#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status Copy(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  WithKeptType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ForEachIndex<2>(y.shape, {x.strides, y.strides},
                    [&](int64_t i, int64_t j) { y.As<T>()[j] = x.As<T>()[i]; });
  });
  return absl::OkStatus();
}

}  // namespace

void AddCopyKernels(KernelList& list) { AddLoops(list, "copy", Copy); }

}  // namespace tessera::reference
