// Convolutions of 3 x 3 taps with stride 1, and their gradients, by Winograd's minimal filtering
// (winograd.h).
#ifndef TESSERA_CORE_KERNELS_CPU_WINOGRAD_CONVOLUTION_H_
#define TESSERA_CORE_KERNELS_CPU_WINOGRAD_CONVOLUTION_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "core/kernels/interface/kernel.h"
#include "core/ops/convolution.h"

namespace tessera::cpu {

// Returns the kernel of `op`, which computes `result`. It accepts f32, bf16 and f16, in one group,
// and computes in f32. A convolution may be followed by a bias and a relu, which are applied before
// a result is rounded and stored.
std::unique_ptr<const Kernel> WinogradConvolutionKernel(absl::string_view op,
                                                        ConvolutionResult result);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_WINOGRAD_CONVOLUTION_H_
