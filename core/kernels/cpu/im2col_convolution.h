// convolution and its gradients as products of matrices, whose rows are unfolded windows.
#ifndef TESSERA_CORE_KERNELS_CPU_IM2COL_CONVOLUTION_H_
#define TESSERA_CORE_KERNELS_CPU_IM2COL_CONVOLUTION_H_

#include <memory>

#include "core/kernels/interface/kernel.h"
#include "core/ops/convolution.h"

namespace tessera::cpu {

// Returns the kernel "onednn_im2col" of the operator `op`, which computes `result`, for f32 in one
// group.
std::unique_ptr<const Kernel> Im2colConvolutionKernel(absl::string_view op,
                                                      ConvolutionResult result);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_IM2COL_CONVOLUTION_H_
