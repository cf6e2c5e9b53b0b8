// Attention of one token of one head.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_ATTENTION_ROW_H_
#define TESSERA_CORE_KERNELS_REFERENCE_ATTENTION_ROW_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/kernels/reference/strided.h"

namespace tessera::reference {

// Returns the vector of one token and head of a [batch, seq, heads, head_dim] tensor.
inline Line HeadLine(const TensorView& view, int64_t batch, int64_t token, int64_t head) {
  return LastLine(view, batch * view.strides[0] + token * view.strides[1] + head * view.strides[2]);
}

// o = softmax(scale * q k^T) v, over the first `keys` tokens of k and v [batch, seq, heads,
// head_dim]; returns the log-sum-exp of the scores. `row` is scratch for `keys` numbers.
inline double AttendRow(Line q, const TensorView& k, const TensorView& v, int64_t batch,
                        int64_t head, int64_t keys, double scale, double* row, Line o) {
  const int64_t head_dim = k.shape[3];
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < keys; ++j) {
    row[j] = scale * Dot(q, HeadLine(k, batch, j, head), head_dim);
    max = std::max(max, row[j]);
  }
  double sum = 0;
  for (int64_t j = 0; j < keys; ++j) sum += std::exp(row[j] - max);
  for (int64_t j = 0; j < keys; ++j) row[j] = std::exp(row[j] - max) / sum;
  for (int64_t d = 0; d < head_dim; ++d) {
    o[d] = 0;
    for (int64_t j = 0; j < keys; ++j) o[d] += row[j] * HeadLine(v, batch, j, head)[d];
  }
  return max + std::log(sum);
}

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_ATTENTION_ROW_H_
