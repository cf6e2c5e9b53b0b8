// The shape rules of operators that normalize the rows of x: one row for each index of its leading
// dimensions, along the last one.
#ifndef TESSERA_CORE_OPS_NORMALIZED_ROWS_H_
#define TESSERA_CORE_OPS_NORMALIZED_ROWS_H_

#include "absl/status/status.h"
#include "core/graph/operator.h"
#include "core/ops/input_check.h"
#include "core/status/status_macros.h"

namespace tessera {

// Checks that input `x` is floating, and of rank 1 or more.
inline absl::Status CheckNormalized(const InputCheck& check, int x) {
  RETURN_IF_ERROR(check.Floating(x));
  return check.MinRank(x, 1);
}

// Returns the type of a tensor with one statistic for each row of x.
inline TensorType StatisticOfRows(const TensorType& x) {
  return {StatisticDType(x.dtype), Shape(x.shape.begin(), x.shape.end() - 1)};
}

// Returns the type of the weight and of the bias, which have one element for each column of x.
inline TensorType WeightOfColumns(const TensorType& x) { return {x.dtype, {x.shape.back()}}; }

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_NORMALIZED_ROWS_H_
