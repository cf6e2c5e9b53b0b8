// One convolution, or one of its gradients, by oneDNN: made once and run many times. Exceptions of
// oneDNN become errors.
//
// Pictures are read and written as they lie, with the channels of a pixel side by side. The weight
// is packed for the processor in the scratch memory.
#ifndef TESSERA_CORE_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
#define TESSERA_CORE_KERNELS_CPU_ONEDNN_CONVOLUTION_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/convolution.h"
#include "core/tensor/dtype.h"

namespace tessera::cpu {

// Not thread-safe.
class OnednnConvolution {
 public:
  // The operands have the dtype `operands`, f32, or bf16 if MultipliesBFloat16(); the result has
  // this dtype or f32. No size is 0.
  static absl::StatusOr<OnednnConvolution> Make(ConvolutionResult result,
                                                const ConvolutionSizes& sizes, DType operands,
                                                DType stored, int threads);
  OnednnConvolution(OnednnConvolution&&) noexcept;
  OnednnConvolution& operator=(OnednnConvolution&&) noexcept;
  ~OnednnConvolution();

  int64_t scratch_bytes() const;
  // Computes `output` from the operator's inputs, in their order. `scratch` has scratch_bytes().
  absl::Status Run(const void* first, const void* second, void* output, void* scratch);

 private:
  struct Prepared;
  explicit OnednnConvolution(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
