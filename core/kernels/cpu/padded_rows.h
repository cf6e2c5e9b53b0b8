// Copies of matrices whose rows lie a little further apart.
//
// Rows that are a multiple of 1024 bytes apart share few sets of the first-level cache: a product
// that reads a block of columns evicts what it will read next. On processors with AVX-512, oneDNN
// computes such products of GPT-2 at less than half of its rate. A copy costs a few percent of a
// large product.
#ifndef TESSERA_CORE_KERNELS_CPU_PADDED_ROWS_H_
#define TESSERA_CORE_KERNELS_CPU_PADDED_ROWS_H_

#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/tensor/dtype.h"

namespace tessera::cpu {

// The copy of one operand of a product.
struct PaddedRows {
  int64_t rows = 0, row_bytes = 0;
  int64_t pitch_bytes = 0;  // 0: the operand is not copied
  int64_t offset = 0;       // in the workspace

  // Lays out the copy of a matrix at `*end` of the workspace, if its rows collide, and moves `*end`
  // behind it.
  static PaddedRows Place(int64_t rows, int64_t row_bytes, int64_t* end) {
    constexpr int64_t kCollides = 1024, kLine = 64;
    PaddedRows copy = {.rows = rows, .row_bytes = row_bytes};
    if (rows < 2 || row_bytes == 0 || row_bytes % kCollides != 0) return copy;
    copy.pitch_bytes = row_bytes + kLine;
    copy.offset = Aligned(*end);
    *end = copy.offset + rows * copy.pitch_bytes;
    return copy;
  }
  bool is_copied() const { return pitch_bytes > 0; }

  // Returns the address of the copy, which is made, or of the operand itself.
  const void* Copy(int threads, const void* operand, void* workspace) const {
    if (!is_copied()) return operand;
    char* const to = static_cast<char*>(workspace) + offset;
    const char* const from = static_cast<const char*>(operand);
    constexpr int64_t kGrainBytes = int64_t{1} << 16;
    ParallelFor(threads, rows, kGrainBytes / row_bytes + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        std::memcpy(to + r * pitch_bytes, from + r * row_bytes, static_cast<size_t>(row_bytes));
      }
    });
    return to;
  }
};

// The copies of the operands of a product, at the start of a workspace.
struct PaddedOperands {
  PaddedRows a, b;
  int64_t bytes = 0;  // of both copies, aligned

  PaddedOperands() = default;  // copies nothing
  explicit PaddedOperands(const ProductShape& shape) {
    if (shape.batch != 1) return;
    const auto size = static_cast<int64_t>(SizeOf(shape.operands));
    a = shape.transpose_a ? PaddedRows::Place(shape.depth, shape.rows * size, &bytes)
                          : PaddedRows::Place(shape.rows, shape.depth * size, &bytes);
    b = shape.transpose_b ? PaddedRows::Place(shape.columns, shape.depth * size, &bytes)
                          : PaddedRows::Place(shape.depth, shape.columns * size, &bytes);
    bytes = Aligned(bytes);
  }

  // Returns the shape of the product of the copies.
  ProductShape ShapeWith(ProductShape shape) const {
    const auto size = static_cast<int64_t>(SizeOf(shape.operands));
    shape.a_pitch = a.pitch_bytes / size;
    shape.b_pitch = b.pitch_bytes / size;
    return shape;
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_PADDED_ROWS_H_
