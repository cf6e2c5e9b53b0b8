#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status AllFinite(const KernelCall& call) {
  bool all_finite = true;
  for (const TensorView& x : call.inputs) {
    ForEachIndex<1>(x.shape, {x.strides}, [&](int64_t i) {
      all_finite = all_finite && std::isfinite(x.As<double>()[i]);
    });
  }
  *call.outputs[0].As<uint8_t>() = all_finite ? 1 : 0;
  return absl::OkStatus();
}

}  // namespace

void AddAllFiniteKernels(KernelList& list) { AddLoops(list, "all_finite", AllFinite); }

}  // namespace tessera::reference
