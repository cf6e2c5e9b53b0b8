// One convolution, or one of its gradients, by oneDNN: made once and run many times. Exceptions of
// oneDNN become errors.
//
// Pictures are read and written as they lie, with the channels of a pixel side by side. The weight
// is packed for the processor in the scratch memory.
#ifndef TESSERA_CORE_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
#define TESSERA_CORE_KERNELS_CPU_ONEDNN_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/convolution.h"
#include "core/tensor/dtype.h"

namespace tessera::cpu {

// Not thread-safe.
class OnednnConvolution {
 public:
  // The operands are f32, or bf16 if MultipliesBFloat16(). The result and the bias [out channels],
  // which may be there for y alone, have the dtype of the operands or f32.
  struct DTypes {
    DType operands, result;
    std::optional<DType> bias;
  };
  // No size is 0.
  static absl::StatusOr<OnednnConvolution> Make(ConvolutionResult result,
                                                const ConvolutionSizes& sizes, const DTypes& dtypes,
                                                int threads);
  OnednnConvolution(OnednnConvolution&&) noexcept;
  OnednnConvolution& operator=(OnednnConvolution&&) noexcept;
  ~OnednnConvolution();

  int64_t scratch_bytes() const;
  // Computes `output` from the operator's inputs, in their order, and the bias, if there is one; it
  // is added before the result is rounded. `scratch` has scratch_bytes().
  absl::Status Run(const void* first, const void* second, const void* bias, void* output,
                   void* scratch);

 private:
  struct Prepared;
  explicit OnednnConvolution(std::unique_ptr<Prepared> prepared);
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
