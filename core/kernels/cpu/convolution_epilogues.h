// The epilogues that convolutions run before they round and store their result.
#ifndef TESSERA_CORE_KERNELS_CPU_CONVOLUTION_EPILOGUES_H_
#define TESSERA_CORE_KERNELS_CPU_CONVOLUTION_EPILOGUES_H_

#include <optional>

#include "core/kernels/interface/kernel.h"
#include "core/ops/convolution.h"
#include "core/tensor/dtype.h"

namespace tessera::cpu {

// The addition of a bias [out channels], and casts by which a result of 16 bits is stored in f32,
// in any order: the sum is f32 until it is stored.
struct ConvolutionEpilogues {
  // Returns nullopt if the request of a kernel that computes `result` has others, or two additions.
  static std::optional<ConvolutionEpilogues> Of(ConvolutionResult result,
                                                const KernelRequest& request);

  std::optional<DType> bias;  // its dtype; it is input ConvolutionInput::kCount
  bool stores_in_f32 = false;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_CONVOLUTION_EPILOGUES_H_
