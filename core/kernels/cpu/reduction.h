// Reductions of a row-major tensor over any axes, in an order that depends on the shape alone.
//
// The input elements of an output are split into pieces of fixed length. Each piece is reduced
// separately, in double, and the results of the pieces are combined in their order. So the result
// is the same whether one thread computes all pieces of an output or several threads share them.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_REDUCTION_H_
#define TESSERA_CORE_KERNELS_CPU_REDUCTION_H_

#include <cstdint>

#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// The operation of a reduction: a sum, a maximum. Elements of 16 bits are passed to it as floats.
struct Reducer {
  double identity;
  // Reduces `count` consecutive elements.
  double (*row)(const float* x, int64_t count);
  // Reduces `rows` rows of `width` elements, `stride` elements apart, into `result`.
  void (*columns)(const float* x, int64_t rows, int64_t stride, int64_t width, double* result);
  void (*combine)(const double* from, int64_t count, double* result);
};

// Reduces input 0 over the attribute `axes` into output 0. The call's workspace has
// ReductionWorkspace bytes.
void Reduce(const KernelCall& call, const Reducer& reducer);

int64_t ReductionWorkspace(const KernelRequest& request);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_REDUCTION_H_
