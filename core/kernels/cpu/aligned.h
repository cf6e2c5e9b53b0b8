// Sizes of the parts of a workspace.
#ifndef TESSERA_CORE_KERNELS_CPU_ALIGNED_H_
#define TESSERA_CORE_KERNELS_CPU_ALIGNED_H_

#include <cstdint>

#include "core/kernels/interface/backend.h"

namespace tessera::cpu {

// Returns the bytes, rounded up to kBufferAlignment, so that the next part is aligned as buffers.
constexpr int64_t Aligned(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ALIGNED_H_
