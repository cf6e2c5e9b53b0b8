// The kernels of the cpu backend: fp32 (and the integers that an operator names), by vectors
// through Highway, and the large products by oneDNN.
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

// Whether every floating tensor of the request is f32.
bool FloatsAreF32(const KernelRequest& request);
// Whether the output is f32, i32 or i64.
bool IsArithmetic(const KernelRequest& request);

// The traits that most kernels have.
using Traits = FunctionKernel::Traits;
inline constexpr Traits kRowMajor = {.accepts = FloatsAreF32};
// Elementwise kernels that run through RunElementwise (elementwise.h).
inline constexpr Traits kElementwise = {
    .accepts = FloatsAreF32, .elementwise = true, .strided_inputs = 0b111};
inline constexpr Traits kArithmetic = {
    .accepts = IsArithmetic, .elementwise = true, .strided_inputs = 0b11};
inline constexpr Traits kElementwiseOfAnyDType = {.elementwise = true, .strided_inputs = 0b111};

constexpr Traits WithWorkspace(int64_t (*bytes)(const KernelRequest&, const Processor&)) {
  return {.accepts = FloatsAreF32, .workspace_bytes = bytes};
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_KERNEL_LIST_H_
