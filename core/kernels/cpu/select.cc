// select. The loop depends on the size of an element, not on its dtype.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/select.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/ops/select.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// A plain loop: the compiler can use this target's instructions here.
template <typename T>
void Run(const void* const* inputs, void* output, int64_t count) {
  const uint8_t* const condition = static_cast<const uint8_t*>(inputs[SelectInput::kCondition]);
  const T* const a = static_cast<const T*>(inputs[SelectInput::kA]);
  const T* const b = static_cast<const T*>(inputs[SelectInput::kB]);
  T* const y = static_cast<T*>(output);
  for (int64_t i = 0; i < count; ++i) {
    const T if_true = a[i], if_false = b[i];
    y[i] = condition[i] != 0 ? if_true : if_false;
  }
}

void SelectRun(const void* context, const void* const* inputs, void* output, int64_t count) {
  switch (*static_cast<const int64_t*>(context)) {
    case 1:
      return Run<uint8_t>(inputs, output, count);
    case 2:
      return Run<uint16_t>(inputs, output, count);
    case 4:
      return Run<uint32_t>(inputs, output, count);
    default:
      return Run<uint64_t>(inputs, output, count);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(SelectRun);

absl::Status Select(const KernelCall& call) {
  const int64_t element_bytes = SizeOf(call.outputs[0].dtype);
  RunElementwise(call.request.threads, call.inputs, call.outputs[0], &element_bytes,
                 HWY_DYNAMIC_DISPATCH(SelectRun));
  return absl::OkStatus();
}

}  // namespace

void AddSelectKernels(KernelList& list) {
  list.Add("select", "highway", Select, kElementwiseOfAnyDType);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
