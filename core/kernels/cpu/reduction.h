// Reductions of a row-major tensor over any axes, in an order that depends on the shape alone.
//
// The reduced elements of an output are split into pieces of fixed length. Each piece is reduced by
// itself, in double, and the pieces are combined in their order. So the result is the same whether
// one thread does all pieces of an output or several threads share them.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_REDUCTION_H_
#define TESSERA_CORE_KERNELS_CPU_REDUCTION_H_

#include <cstdint>

#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// The operation of a reduction: a sum, a maximum. It is passed elements of 16 bits as floats.
struct Reducer {
  double identity;
  // Reduces `count` consecutive elements.
  double (*row)(const float* x, int64_t count);
  // Reduces `rows` rows of `width` elements, `stride` elements apart, into `result`.
  void (*columns)(const float* x, int64_t rows, int64_t stride, int64_t width, double* result);
  void (*combine)(const double* from, int64_t count, double* result);
};

// Input 0 over the attribute `axes` into output 0.
void Reduce(const KernelCall& call, const Reducer& reducer);

int64_t ReductionWorkspace(const KernelRequest& request);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_REDUCTION_H_
