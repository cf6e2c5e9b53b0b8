// Activations of a product's result where it lies: the same bits as the operators of their names.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_ACTIVATIONS_H_
#define TESSERA_CORE_KERNELS_CPU_ACTIVATIONS_H_

#include "core/tensor/tensor_view.h"

namespace tessera::cpu {

// `y` is fp32 and row-major.
void GeluErfInPlace(int threads, const TensorView& y);
void GeluTanhInPlace(int threads, const TensorView& y);
void ReluInPlace(int threads, const TensorView& y);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ACTIVATIONS_H_
