#include "core/kernels/cpu/batch.h"

#include "core/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

// The blocks of a group, so many that threads can share them.
struct Blocks {
  static constexpr int64_t kLeast = 64;  // positions
  static constexpr int64_t kMost = 64;   // of all groups together, about
  int64_t block, count;                  // positions of each; blocks of the largest group

  Blocks(const BatchShape& shape, int64_t group_rows) {
    const int64_t all = shape.positions();
    const int64_t largest = std::min(shape.rows, group_rows) * shape.row_positions;
    block = std::max(kLeast, (all + kMost - 1) / kMost);
    count = (largest + block - 1) / block;
  }
};

// Returns whether all sums are 0, or there are none.
bool IsEmpty(const BatchShape& shape, int64_t groups) {
  return groups == 0 || shape.channels == 0 || shape.positions() == 0;
}

}  // namespace

absl::Status CheckGroups(const BatchGroups& groups, int64_t rows, const TensorView& statistic) {
  if (groups.Contain(rows, statistic.shape[0])) return absl::OkStatus();
  return absl::InvalidArgumentError("rows and statistics are of different groups");
}

void SumGroups(const KernelCall& call, const GroupSums& sums) {
  const BatchShape& shape = sums.shape;
  const TensorView& first = call.outputs[0];
  if (IsEmpty(shape, first.shape[0])) {
    for (int s = 0; s < sums.sums; ++s)
      std::fill_n(call.outputs[s].As<float>(), first.elements(), 0.0f);
    return;
  }
  const Blocks blocks(shape, sums.groups.group_rows);
  const int64_t width = sums.sums * shape.channels;
  double* const partial = static_cast<double*>(call.workspace);
  for (int64_t group = 0; group < first.shape[0]; ++group) {
    const int64_t begin = sums.groups.Begin(group, shape.rows) * shape.row_positions;
    const int64_t end = sums.groups.End(group, shape.rows) * shape.row_positions;
    ParallelFor(call.request.threads, blocks.count, 1, [&](int64_t first_block, int64_t end_block) {
      for (int64_t b = first_block; b < end_block; ++b) {
        double* const block = partial + b * width;
        std::fill_n(block, width, 0.0);
        ForEachRowOf(shape, begin + b * blocks.block, std::min(end, begin + (b + 1) * blocks.block),
                     [&](int64_t row, int64_t row_begin, int64_t row_end) {
                       if (!IsValid(sums.valid, row)) return;
                       sums.add(call, group, row_begin, row_end, block);
                     });
      }
    });
    ParallelFor(call.request.threads, width, 512, [&](int64_t first_sum, int64_t end_sum) {
      for (int64_t i = first_sum; i < end_sum; ++i) {
        double sum = 0;
        for (int64_t b = 0; b < blocks.count; ++b) sum += partial[b * width + i];
        call.outputs[i / shape.channels].As<float>()[group * shape.channels + i % shape.channels] =
            static_cast<float>(sum);
      }
    });
  }
}

int64_t SumWorkspace(const BatchShape& shape, int64_t group_rows, int64_t groups, int sums) {
  if (IsEmpty(shape, groups)) return 0;
  return Blocks(shape, group_rows).count * sums * shape.channels *
         static_cast<int64_t>(sizeof(double));
}

}  // namespace tessera::cpu
