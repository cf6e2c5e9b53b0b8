// Zeros for outputs: of sums over no elements, and of sums that are added to.
#ifndef TESSERA_CORE_KERNELS_CPU_ZERO_OUTPUT_H_
#define TESSERA_CORE_KERNELS_CPU_ZERO_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// Sets a tensor, which may have no elements and then no memory, to 0.
inline void SetToZero(const TensorView& y) {
  const int64_t bytes = y.elements() * SizeOf(y.dtype);
  if (bytes > 0) std::memset(y.data, 0, static_cast<size_t>(bytes));
}

// Sets its only output to 0.
class BoundZero : public BoundKernel {
 public:
  absl::Status Run(const KernelCall& call) override {
    SetToZero(call.outputs[0]);
    return absl::OkStatus();
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ZERO_OUTPUT_H_
