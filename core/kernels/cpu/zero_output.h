// The kernel of a sum over no elements.
#ifndef TESSERA_CORE_KERNELS_CPU_ZERO_OUTPUT_H_
#define TESSERA_CORE_KERNELS_CPU_ZERO_OUTPUT_H_

#include <cstddef>
#include <cstring>

#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// Sets its only output, which may have no elements, to 0.
class BoundZero : public BoundKernel {
 public:
  absl::Status Run(const KernelCall& call) override {
    const TensorView& y = call.outputs[0];
    std::memset(y.data, 0, static_cast<size_t>(y.elements() * SizeOf(y.dtype)));
    return absl::OkStatus();
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ZERO_OUTPUT_H_
