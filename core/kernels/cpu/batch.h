// A batch [rows, ..., channels] whose rows belong to groups, and sums over the positions of each
// group. A position is a row, or a pixel of one; it has one element of each channel.
//
// A group is summed in blocks of positions, in double, and the blocks are added up in their order.
// The blocks depend on the shape alone, so the number of threads changes no bit.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_KERNELS_CPU_BATCH_H_
#define TESSERA_CORE_KERNELS_CPU_BATCH_H_

#include <algorithm>
#include <cstdint>

#include "core/kernels/interface/kernel.h"
#include "core/ops/batch_norm.h"

namespace tessera::cpu {

struct BatchShape {
  int64_t rows, row_positions, channels;

  explicit BatchShape(const Shape& x)
      : rows(x.front()),
        row_positions(NumElements(absl::MakeConstSpan(x).subspan(1, x.size() - 2))),
        channels(x.back()) {}
  int64_t positions() const { return rows * row_positions; }
};

// Returns an error if the rows of x are not all in the groups of the statistics.
absl::Status CheckGroups(const BatchGroups& groups, int64_t rows, const TensorView& statistic);

// Returns whether a row counts in statistics; `valid` (f32) is null if all do.
inline bool IsValid(const float* valid, int64_t row) { return valid == nullptr || valid[row] != 0; }

// Returns the elements of the input `valid`, which may be absent.
inline const float* ValidRows(const KernelCall& call, int input) {
  return static_cast<int>(call.inputs.size()) <= input ? nullptr : call.inputs[input].As<float>();
}

// Calls body(row, begin, end) for the positions of each row in [begin, end).
template <typename Body>
void ForEachRowOf(const BatchShape& shape, int64_t begin, int64_t end, const Body& body) {
  while (begin < end) {
    const int64_t row = begin / shape.row_positions;
    const int64_t row_end = std::min(end, (row + 1) * shape.row_positions);
    body(row, begin, row_end);
    begin = row_end;
  }
}

// The statistics of a group that its gradient needs, each [channels].
struct GroupGradient {
  const float *mean, *rstd, *dy_sum, *product_sum;
  float share;  // 1 / the number of positions of which they are statistics
};

// One or two sums for each channel of each group.
struct GroupSums {
  const BatchShape& shape;
  const BatchGroups& groups;
  const float* valid;  // the rows that count; null: all
  int sums;            // the outputs 0 to sums - 1 [groups, channels], f32
  // Adds positions [begin, end) of group `group` to its sums [sums, channels].
  void (*add)(const KernelCall& call, int64_t group, int64_t begin, int64_t end, double* sums);
};

// Sets a call's outputs. Its workspace has SumWorkspace() bytes.
void SumGroups(const KernelCall& call, const GroupSums& sums);

int64_t SumWorkspace(const BatchShape& shape, int64_t group_rows, int64_t groups, int sums);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_BATCH_H_
