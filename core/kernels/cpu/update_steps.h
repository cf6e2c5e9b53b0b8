// The scalars of an optimizer's update, in the form that its vector loops use.
#ifndef TESSERA_CORE_KERNELS_CPU_UPDATE_STEPS_H_
#define TESSERA_CORE_KERNELS_CPU_UPDATE_STEPS_H_

#include <cstdint>
#include <cstring>

#include "core/tensor/tensor_view.h"

namespace tessera::cpu {

struct SgdStep {
  float lr, scale, momentum, weight_decay;
};

struct AdamwStep {
  float scale;  // of gradients
  float decay;  // 1 - lr * weight_decay
  float beta1, beta2;
  float rest1, rest2;     // 1 - beta
  float step_size;        // lr / (1 - beta1^step)
  float root_correction;  // sqrt(1 - beta2^step)
  float eps;
};

// Performs the update if the predicate is 0: copies the old state to the new one.
inline void KeepState(const TensorView& old_state, const TensorView& new_state) {
  const int64_t bytes = old_state.elements() * SizeOf(old_state.dtype);
  if (bytes > 0 && old_state.data != new_state.data) {
    std::memcpy(new_state.data, old_state.data, bytes);
  }
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_UPDATE_STEPS_H_
