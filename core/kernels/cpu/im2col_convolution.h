// convolution and its gradients as products of matrices, whose rows are unfolded windows.
#ifndef TESSERA_CORE_KERNELS_CPU_IM2COL_CONVOLUTION_H_
#define TESSERA_CORE_KERNELS_CPU_IM2COL_CONVOLUTION_H_

#include <memory>

#include "core/kernels/interface/kernel.h"
#include "core/ops/convolution.h"

namespace tessera::cpu {

// Returns a kernel of the operator `op`, which computes `result` in one group: "onednn_im2col" for
// f32; for bf16 (MultipliesBFloat16) "onednn_product_bf16", which accepts pictures that need not be
// unfolded alone: windows of one pixel, and windows of a whole picture. No bias is added before the
// result is rounded.
std::unique_ptr<const Kernel> Im2colConvolutionKernel(absl::string_view op,
                                                      ConvolutionResult result, DType dtype);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_IM2COL_CONVOLUTION_H_
