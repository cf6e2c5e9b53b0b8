// cast: between all dtypes (convert.h says how).
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/cast.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/tensor/convert.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// The two that training in half precision does all the time; their bits are those of Convert.
// Plain integer arithmetic, which the compiler makes vectors of with this target's instructions.
void FloatToBFloat16(const void* /*context*/, const void* const* inputs, void* output,
                     int64_t count) {
  const uint32_t* const x = static_cast<const uint32_t*>(inputs[0]);
  uint16_t* const y = static_cast<uint16_t*>(output);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = x[i];
    const uint32_t nan = word >> 16 | 0x40u;
    const uint32_t rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
    y[i] = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

void BFloat16ToFloat(const void* /*context*/, const void* const* inputs, void* output,
                     int64_t count) {
  const uint16_t* const x = static_cast<const uint16_t*>(inputs[0]);
  uint32_t* const y = static_cast<uint32_t*>(output);
  for (int64_t i = 0; i < count; ++i) y[i] = uint32_t{x[i]} << 16;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(FloatToBFloat16);
HWY_EXPORT(BFloat16ToFloat);

template <typename From, typename To>
void ConvertRun(const void* /*context*/, const void* const* inputs, void* output, int64_t count) {
  const From* const x = static_cast<const From*>(inputs[0]);
  To* const y = static_cast<To*>(output);
  for (int64_t i = 0; i < count; ++i) y[i] = Convert<To>(x[i]);
}

ElementwiseRun RunFor(DType from, DType to) {
  if (from == DType::kF32 && to == DType::kBF16) return HWY_DYNAMIC_DISPATCH(FloatToBFloat16);
  if (from == DType::kBF16 && to == DType::kF32) return HWY_DYNAMIC_DISPATCH(BFloat16ToFloat);
  return WithElementType(from, [to](auto from_type) {
    return WithElementType(to, [](auto to_type) -> ElementwiseRun {
      return ConvertRun<decltype(from_type), decltype(to_type)>;
    });
  });
}

absl::Status Cast(const KernelCall& call) {
  RunElementwise(call.request.threads, call.inputs, call.outputs[0], nullptr,
                 RunFor(call.inputs[0].dtype, call.outputs[0].dtype));
  return absl::OkStatus();
}

}  // namespace

void AddCastKernels(KernelList& list) { list.Add("cast", "loops", Cast, kElementwiseOfAnyDType); }

}  // namespace tessera::cpu
#endif  // HWY_ONCE
