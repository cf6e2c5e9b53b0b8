#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status ValidMask(const KernelCall& call) {
  const TensorView &labels = call.inputs[0], &y = call.outputs[0];
  const int64_t ignore_index = call.request.attributes.GetInt("ignore_index");
  ForEachIndex<2>(y.shape, {labels.strides, y.strides}, [&](int64_t i, int64_t j) {
    y.As<double>()[j] = labels.As<int32_t>()[i] != ignore_index ? 1 : 0;
  });
  return absl::OkStatus();
}

}  // namespace

void AddValidMaskKernels(KernelList& list) { AddLoops(list, "valid_mask", ValidMask); }

}  // namespace tessera::reference
