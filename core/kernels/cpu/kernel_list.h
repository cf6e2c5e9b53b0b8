// The kernels of the cpu backend, by vectors through Highway, and the large products by oneDNN.
//
// They compute in f32 and take f32, bf16 and f16 (and the integers that an operator names), never
// f64. An element of 16 bits is converted where it is loaded or stored: by the vectors of
// vectors-inl.h, by tiles (convert_floats.h), or, for products, by all of an operand (via_f32.h).
// So no result is rounded to 16 bits but the one that is stored. The kernels "onednn_bf16" differ,
// which come first where the processor multiplies bf16: they round what they multiply again (the
// gradients of logits), and a product before a fused activation.
//
// A kernel here gets its threads from parallel.h and its scratch memory from the memory plan.
#ifndef TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_
#define TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/interface/kernel.h"
#include "core/kernels/interface/kernel_list.h"

namespace tessera::cpu {

// Every kernel of this backend, from the files of kernel_files.inc.
absl::Span<const Kernel* const> Kernels();

// Whether every floating tensor of the request is f32, bf16 or f16.
bool FloatsAreNotF64(const KernelRequest& request);
// Whether the output is f32, bf16, f16, i32 or i64.
bool IsArithmetic(const KernelRequest& request);

// The traits that most kernels have.
using Traits = FunctionKernel::Traits;
inline constexpr Traits kRowMajor = {.accepts = FloatsAreNotF64};
// Elementwise kernels that run through RunElementwise (elementwise.h).
inline constexpr Traits kElementwise = {
    .accepts = FloatsAreNotF64, .elementwise = true, .strided_inputs = 0b111};
inline constexpr Traits kArithmetic = {
    .accepts = IsArithmetic, .elementwise = true, .strided_inputs = 0b11};
inline constexpr Traits kElementwiseOfAnyDType = {.elementwise = true, .strided_inputs = 0b111};

constexpr Traits WithWorkspace(int64_t (*bytes)(const KernelRequest&, const Processor&)) {
  return {.accepts = FloatsAreNotF64, .workspace_bytes = bytes};
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_
