#include <cstdint>

#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"

namespace tessera::cpu {
namespace {

void ValidMaskRun(const void* context, const void* const* inputs, void* output, int64_t count) {
  const int64_t ignore_index = *static_cast<const int64_t*>(context);
  const int32_t* const labels = static_cast<const int32_t*>(inputs[0]);
  float* const y = static_cast<float*>(output);
  for (int64_t i = 0; i < count; ++i) y[i] = labels[i] != ignore_index ? 1.0f : 0.0f;
}

absl::Status ValidMask(const KernelCall& call) {
  const int64_t ignore_index = call.request.attributes.GetInt("ignore_index");
  RunElementwiseInF32(call.request.threads, call.inputs, call.outputs[0], &ignore_index,
                      ValidMaskRun);
  return absl::OkStatus();
}

}  // namespace

void AddValidMaskKernels(KernelList& list) {
  list.Add("valid_mask", "loops", ValidMask, kElementwise);
}

}  // namespace tessera::cpu
