// All floating dtypes are f64 here, so a cast between them copies without rounding.
#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/tensor/convert.h"

namespace tessera::reference {
namespace {

absl::Status Cast(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  WithKeptType(x.dtype, [&](auto from) {
    WithKeptType(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      ForEachIndex<2>(y.shape, {x.strides, y.strides},
                      [&](int64_t i, int64_t j) { y.As<To>()[j] = Convert<To>(x.As<From>()[i]); });
    });
  });
  return absl::OkStatus();
}

}  // namespace

void AddCastKernels(KernelList& list) { AddLoops(list, "cast", Cast); }

}  // namespace tessera::reference
