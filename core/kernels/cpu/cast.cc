// cast, between all dtypes, by the rules of convert.h. Casts between f32 and 16 bits use vectors
// and give the same bits.
#include <cstdint>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/tensor/convert.h"

namespace tessera::cpu {
namespace {

template <typename From, typename To>
void ConvertRun(const void* /*context*/, const void* const* inputs, void* output, int64_t count) {
  const From* const x = static_cast<const From*>(inputs[0]);
  To* const y = static_cast<To*>(output);
  for (int64_t i = 0; i < count; ++i) y[i] = Convert<To>(x[i]);
}

template <DType kFrom>
void WidenRun(const void* /*context*/, const void* const* inputs, void* output, int64_t count) {
  ToFloats(kFrom, inputs[0], count, static_cast<float*>(output));
}

template <DType kTo>
void NarrowRun(const void* /*context*/, const void* const* inputs, void* output, int64_t count) {
  FromFloats(kTo, static_cast<const float*>(inputs[0]), count, output);
}

ElementwiseRun RunFor(DType from, DType to) {
  if (from == DType::kF32 && to == DType::kBF16) return NarrowRun<DType::kBF16>;
  if (from == DType::kF32 && to == DType::kF16) return NarrowRun<DType::kF16>;
  if (from == DType::kBF16 && to == DType::kF32) return WidenRun<DType::kBF16>;
  if (from == DType::kF16 && to == DType::kF32) return WidenRun<DType::kF16>;
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
