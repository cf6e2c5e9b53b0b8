// matmul by a loop of our own, for products so small that calling a library costs more than the
// product.
#ifndef TESSERA_CORE_KERNELS_CPU_SMALL_MATMUL_H_
#define TESSERA_CORE_KERNELS_CPU_SMALL_MATMUL_H_

#include <memory>

#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// Returns a kernel, "highway", for products of f32.
std::unique_ptr<const Kernel> SmallMatMulKernel();

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_SMALL_MATMUL_H_
