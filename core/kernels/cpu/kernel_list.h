// The kernels of the cpu backend: vector loops with Highway, and oneDNN for large products and for
// convolutions.
//
// They compute in f32 and take f32, bf16 and f16 (and the integers that an operator names), never
// f64. An element of 16 bits is converted when it is loaded or stored: vector by vector
// (vectors-inl.h), tile by tile (convert_floats.h), or, for products, the full operand at once
// (via_f32.h). So only stored results are rounded to 16 bits. The kernels "onednn_bf16" are an
// exception. They are the defaults if the processor multiplies bf16. They also round intermediate
// results that are operands of another product (the gradients of logits), and a product before a
// fused activation. The kernels "highway_bf16" of attention do the same with weights; they are
// candidates, never the defaults.
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

// Returns every kernel of this backend. kernel_files.inc lists the files that define them.
absl::Span<const Kernel* const> Kernels();

// Returns whether every floating tensor of the request is f32, bf16 or f16.
bool FloatsAreNotF64(const KernelRequest& request);
// Returns whether the output is f32, bf16, f16, i32 or i64.
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
