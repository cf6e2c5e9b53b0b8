#include "core/kernels/cpu/layer_norm_rows.h"

#include "core/kernels/cpu/parallel.h"
#include "core/ops/layer_norm.h"
#include "core/tensor/convert.h"

namespace tessera::cpu {
namespace {

// The blocks of rows that threads share.
struct RowBlocks {
  static constexpr int64_t kGroup = 64;  // rows that are summed in f32
  static constexpr int64_t kMaxBlocks = 64;
  int64_t rows, columns, block_rows, blocks;

  explicit RowBlocks(const NormRows& of) : rows(of.rows), columns(of.columns) {
    const int64_t groups = (rows + kGroup - 1) / kGroup;
    block_rows = std::max<int64_t>(1, (groups + kMaxBlocks - 1) / kMaxBlocks) * kGroup;
    blocks = (rows + block_rows - 1) / block_rows;
  }
  // Returns the bytes of a block's sums followed by those of one group, each for weight and bias.
  int64_t block_bytes() const {
    return 2 * columns * static_cast<int64_t>(sizeof(double) + sizeof(float));
  }
};

// Adds the rows of a block. Sets `sums` [2, columns], which the group's sums follow, to the block's
// sums of the gradients of weight and bias.
void SumBlock(const KernelCall& call, const RowBlocks& layout, int64_t block, AddRow add,
              double* sums) {
  float* const group = reinterpret_cast<float*>(sums + 2 * layout.columns);
  std::fill_n(sums, 2 * layout.columns, 0.0);
  const int64_t end = std::min(layout.rows, (block + 1) * layout.block_rows);
  for (int64_t begin = block * layout.block_rows; begin < end; begin += RowBlocks::kGroup) {
    std::fill_n(group, 2 * layout.columns, 0.0f);
    for (int64_t r = begin; r < std::min(end, begin + RowBlocks::kGroup); ++r) {
      add(call, r, group, group + layout.columns);
    }
    for (int64_t c = 0; c < 2 * layout.columns; ++c) sums[c] += double{group[c]};
  }
}

// Writes element i of a row-major tensor, rounded to its dtype.
void WriteRounded(double value, const TensorView& y, int64_t i) {
  WithFloatType(y.dtype, [&](auto type) {
    using T = decltype(type);
    y.As<T>()[i] = Convert<T>(value);
  });
}

}  // namespace

void GradientOfRows(const KernelCall& call, const NormRows& rows, AddRow add) {
  const RowBlocks layout(rows);
  char* const workspace = static_cast<char*>(call.workspace);
  const auto block_sums = [&](int64_t block) {
    return reinterpret_cast<double*>(workspace + block * layout.block_bytes());
  };
  ParallelFor(call.request.threads, layout.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      SumBlock(call, layout, block, add, block_sums(block));
    }
  });
  const TensorView &dweight = call.outputs[LayerNormGradOutput::kDweight],
                   &dbias = call.outputs[LayerNormGradOutput::kDbias];
  ParallelFor(call.request.threads, 2 * layout.columns, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t block = 0; block < layout.blocks; ++block) sum += block_sums(block)[i];
      const bool is_bias = i >= layout.columns;
      WriteRounded(sum, is_bias ? dbias : dweight, is_bias ? i - layout.columns : i);
    }
  });
}

int64_t GradientOfRowsWorkspace(const NormRows& rows) {
  const RowBlocks layout(rows);
  return layout.blocks * layout.block_bytes();
}

}  // namespace tessera::cpu
