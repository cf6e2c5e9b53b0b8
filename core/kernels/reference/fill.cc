#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {

absl::Status Fill(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const double value = call.request.attributes.GetDouble("value");
  WithElementType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ForEachIndex<1>(y.shape, {y.strides}, [&](int64_t i) { y.As<T>()[i] = static_cast<T>(value); });
  });
  return absl::OkStatus();
}

}  // namespace tessera::reference
