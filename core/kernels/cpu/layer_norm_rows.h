// The rows of layer norm's operands [..., columns], and the sums over rows that are the gradients
// of weight and bias: fp32 within a group of rows and double over groups. Threads share blocks of
// groups, whose size depends on the number of rows alone.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_LAYER_NORM_ROWS_H_
#define TESSERA_CORE_KERNELS_CPU_LAYER_NORM_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

struct NormRows {
  int64_t rows, columns;

  explicit NormRows(const Shape& x)
      : rows(NumElements(absl::MakeConstSpan(x).first(x.size() - 1))), columns(x.back()) {}
  // Returns the least number of rows that are worth a thread.
  int64_t grain() const { return std::max<int64_t>(1, 8192 / std::max<int64_t>(1, columns)); }
};

// Returns the address of a row of a row-major tensor [..., columns].
inline void* RowOf(const TensorView& x, int64_t row) {
  return ElementAt(x.dtype, x.data, row * x.shape.back());
}

// The statistics on which the gradient of one row depends. `change` is the mean of dy * weight over
// the complete row, and `normal_change` that of dy * weight * (x - mean) * rstd.
struct RowGradient {
  float mean, rstd, change, normal_change;
};

// Computes dx of row `row` of a call, and adds what the row contributes to the gradients of weight
// and bias to `dweight` and `dbias` [columns].
using AddRow = void (*)(const KernelCall& call, int64_t row, float* dweight, float* dbias);

// Calls add(...) for each of the rows, and sets the outputs dweight and dbias of the call
// (LayerNormGradOutput). The call's workspace has GradientOfRowsWorkspace() bytes.
void GradientOfRows(const KernelCall& call, const NormRows& rows, AddRow add);

int64_t GradientOfRowsWorkspace(const NormRows& rows);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_LAYER_NORM_ROWS_H_
