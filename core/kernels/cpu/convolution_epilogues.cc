#include "core/kernels/cpu/convolution_epilogues.h"

#include "core/tensor/shape.h"

namespace tessera::cpu {

std::optional<ConvolutionEpilogues> ConvolutionEpilogues::Of(ConvolutionResult result,
                                                             const KernelRequest& request) {
  ConvolutionEpilogues epilogues;
  for (const Epilogue& epilogue : request.epilogues) {
    if (StoresInF32(request, epilogue)) {
      epilogues.stores_in_f32 = true;
      continue;
    }
    const bool adds = epilogue.op == "add" && epilogue.extra_inputs == 1;
    if (!adds || result != ConvolutionResult::kY || epilogues.bias.has_value()) {
      return std::nullopt;
    }
    const TensorType& added = request.inputs[ConvolutionInput::kCount];
    if (added.shape != Shape{request.outputs[0].shape.back()}) return std::nullopt;
    epilogues.bias = added.dtype;
  }
  return epilogues;
}

}  // namespace tessera::cpu
