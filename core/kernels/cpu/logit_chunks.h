// The chunks in which the logits of a language model's head are computed, and the products of each
// chunk.
#ifndef TESSERA_CORE_KERNELS_CPU_LOGIT_CHUNKS_H_
#define TESSERA_CORE_KERNELS_CPU_LOGIT_CHUNKS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/zero_output.h"
#include "core/kernels/interface/kernel.h"
#include "core/ops/linear_log_sum_exp.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"
#include "core/tensor/shape.h"

namespace tessera::cpu {

// The chunks of [rows, vocabulary] logits. They depend on the shapes alone.
struct Chunks {
  static constexpr int64_t kChunkFloats = (8 << 20) / sizeof(float);
  static constexpr int64_t kMaxRows = 2048;

  int64_t rows, vocabulary, columns;
  int64_t block_rows, block_words;

  Chunks(const Shape& x, const Shape& w)
      : rows(NumElements(absl::MakeConstSpan(x).first(x.size() - 1))),
        vocabulary(w[0]),
        columns(w[1]),
        block_rows(rows) {
    // Blocks have nearly the same length, because a short last block would read all of w for a few
    // rows.
    const int64_t blocks = (rows + kMaxRows - 1) / kMaxRows;
    if (blocks > 1) block_rows = (rows + blocks - 1) / blocks;
    const int64_t words = kChunkFloats / std::max<int64_t>(1, block_rows) / 64 * 64;
    block_words = std::min(vocabulary, words);
  }
  bool empty() const { return rows == 0 || vocabulary == 0 || columns == 0; }
  bool one_block() const { return rows == block_rows; }  // of rows
  int64_t logits_bytes() const { return Aligned(block_rows * block_words * 4); }
};

// Returns the number that is subtracted from logits before exp: their maximum, or 0 if that is
// -infinity, because -infinity - -infinity is no number.
inline float ShiftOf(float max) {
  return max == -std::numeric_limits<float>::infinity() ? 0.0F : max;
}

// One kind of product, made for each size of a chunk: a full or the last block of rows, times a
// full or the last block of the vocabulary.
class ChunkProducts {
 public:
  // `shape(rows, words)` returns the shape of the product for a chunk of this size.
  template <typename ShapeOf>
  static absl::StatusOr<ChunkProducts> Make(const Chunks& chunks, ProductMethod method, int threads,
                                            const ShapeOf& shape) {
    ChunkProducts products(chunks);
    for (int last_rows = 0; last_rows < 2; ++last_rows) {
      for (int last_words = 0; last_words < 2; ++last_words) {
        const int64_t rows = last_rows ? chunks.rows % chunks.block_rows : chunks.block_rows;
        const int64_t words =
            last_words ? chunks.vocabulary % chunks.block_words : chunks.block_words;
        if (rows == 0 || words == 0) continue;
        ASSIGN_OR_RETURN(OnednnProduct product,
                         OnednnProduct::Make(method, shape(rows, words), {}, threads));
        products.scratch_bytes_ = std::max(products.scratch_bytes_, product.scratch_bytes());
        products.products_[last_rows][last_words].emplace(std::move(product));
      }
    }
    return products;
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }
  OnednnProduct& For(int64_t rows, int64_t words) {
    return *products_[rows == block_rows_ ? 0 : 1][words == block_words_ ? 0 : 1];
  }

 private:
  explicit ChunkProducts(const Chunks& chunks)
      : block_rows_(chunks.block_rows), block_words_(chunks.block_words) {}

  int64_t block_rows_, block_words_;
  int64_t scratch_bytes_ = 0;
  std::optional<OnednnProduct> products_[2][2];
};

// The products of one implementation: f32 by either method, or bf16 (of x, w and their gradients).
struct Multiplier {
  ProductMethod method;
  DType dtype;
};

// Makes the products that compute logits, which are f32.
inline absl::StatusOr<ChunkProducts> MakeLogits(const Chunks& chunks, Multiplier by, int threads) {
  return ChunkProducts::Make(chunks, by.method, threads, [&](int64_t rows, int64_t words) {
    return ProductShape{.rows = rows,
                        .columns = words,
                        .depth = chunks.columns,
                        .transpose_b = true,
                        .operands = by.dtype};
  });
}

// A range of rows, or of the vocabulary.
struct IndexRange {
  int64_t begin, count;
};

// Returns the address of the part of a row of kept logits that is in a chunk.
inline float* KeptRow(const TensorView& logits, int64_t row, IndexRange words) {
  return logits.As<float>() + row * logits.shape.back() + words.begin;
}

// Returns the address of a row of a row-major tensor.
inline void* RowAt(const TensorView& view, int64_t row) {
  return ElementAt(view.dtype, view.data, row * view.shape.back());
}

// Returns the target id of a chunk's first word. `weight` is the index of the input that has a row
// for each word.
inline int64_t FirstTarget(const KernelCall& call, int weight, IndexRange words) {
  return TableRowsOf(call.input_regions, weight, 0).first + words.begin;
}

// Returns whether all types have this dtype.
inline bool AllAre(DType dtype, absl::Span<const TensorType> types) {
  return absl::c_all_of(types, [&](const TensorType& type) { return type.dtype == dtype; });
}

// The kernel for a request without rows, words or columns: all sums are empty.
class BoundEmpty : public BoundKernel {
 public:
  explicit BoundEmpty(const Chunks& chunks) : chunks_(chunks) {}

  absl::Status Run(const KernelCall& call) override {
    for (const TensorView& y : call.outputs) SetToZero(y);
    if (call.request.op != "linear_log_sum_exp") return absl::OkStatus();
    // All logits are 0, so the log-sum-exp is the logarithm of the vocabulary's size.
    std::fill_n(call.outputs[LinearLogSumExpOutput::kLse].As<float>(), chunks_.rows,
                std::log(static_cast<float>(chunks_.vocabulary)));
    return absl::OkStatus();
  }

 private:
  Chunks chunks_;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_LOGIT_CHUNKS_H_
