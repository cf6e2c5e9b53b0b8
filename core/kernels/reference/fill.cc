#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/tensor/convert.h"

namespace tessera::reference {
namespace {

absl::Status Fill(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const double value = call.request.attributes.GetDouble("value");
  WithKeptType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ForEachIndex<1>(y.shape, {y.strides}, [&](int64_t i) { y.As<T>()[i] = Convert<T>(value); });
  });
  return absl::OkStatus();
}

}  // namespace

void AddFillKernels(KernelList& list) { AddLoops(list, "fill", Fill); }

}  // namespace tessera::reference
