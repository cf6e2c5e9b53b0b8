// The loop of all elementwise operators. It splits the output into runs and passes each operand of
// a run as contiguous elements, whatever its strides and broadcasting. So one vector loop serves
// every layout, and gives an element the same bits in each.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_ELEMENTWISE_H_
#define TESSERA_CORE_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

inline constexpr int kMaxElementwiseInputs = 3;

// Computes one run: inputs[i] and `output` are contiguous arrays of `count` elements. If an input
// has the same address as the output, its run has the same address as the output's run.
using ElementwiseRun = void (*)(const void* context, const void* const* inputs, void* output,
                                int64_t count);

// Splits `output` (row-major) into runs and calls `run` for each. The inputs, at most
// kMaxElementwiseInputs with any strides, are broadcast to its shape. Elements are passed without
// conversion, whatever their dtype.
void RunElementwise(int threads, absl::Span<const TensorView> inputs, const TensorView& output,
                    const void* context, ElementwiseRun run);

// Like RunElementwise, but converts: inputs of bf16 or f16 are passed to `run` as floats, and `run`
// writes floats for an output of bf16 or f16.
void RunElementwiseInF32(int threads, absl::Span<const TensorView> inputs, const TensorView& output,
                         const void* context, ElementwiseRun run);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ELEMENTWISE_H_
