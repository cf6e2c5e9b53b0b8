// The blocks of attention, and their addresses in a worker's part of the workspace. The workspace
// is linear in the length of a sequence.
#ifndef TESSERA_CORE_KERNELS_CPU_ATTENTION_BLOCKS_H_
#define TESSERA_CORE_KERNELS_CPU_ATTENTION_BLOCKS_H_

#include <cstdint>

#include "core/graph/attributes.h"
#include "core/kernels/cpu/head_view.h"

namespace tessera::cpu {

inline constexpr int64_t kQueries = 32;  // of a block: two vectors of the widest target
inline constexpr int64_t kKeys = 64;     // of a block

// head_dim, padded to full vectors of the widest target.
constexpr int64_t PaddedDim(int64_t dim) { return (dim + 15) / 16 * 16; }

// The tensors and parameters of the attention of one head.
struct AttentionHead {
  HeadView q, k, v, o;
  float* lse;
  int64_t lse_stride;
  int64_t queries, keys, dim;
  float scale;
  bool causal;
  HeadView d_o, dq, dk, dv;  // of the gradient only

  AttentionHead(const Attributes& attributes, int64_t batch, int64_t head, const TensorView& q,
                const TensorView& k, const TensorView& v, const TensorView& o,
                const TensorView& lse)
      : q(q, batch, head),
        k(k, batch, head),
        v(v, batch, head),
        o(o, batch, head),
        lse(lse.As<float>() + batch * lse.strides[0] + head * lse.strides[1]),
        lse_stride(lse.strides[2]),
        queries(q.shape[1]),
        keys(k.shape[1]),
        dim(q.shape[3]),
        scale(static_cast<float>(attributes.GetDouble("scale"))),
        causal(attributes.GetBool("causal")) {}
};

// Splits a worker's memory into arrays that begin at cache lines.
class ScratchAllocator {
 public:
  explicit ScratchAllocator(float* memory) : next_(memory) {}
  // Returns the next array, of so many elements.
  float* Allocate(int64_t floats) {
    float* const array = next_;
    next_ += PaddedDim(floats);
    return array;
  }

 private:
  float* next_;
};

// A worker's memory in the forward pass.
struct ForwardScratch {
  float *keys, *values;     // [keys, dim]
  float* rows;              // [kQueries, dim]
  float *queries, *output;  // [dim, kQueries]
  float* scores;            // [kKeys, kQueries]

  ForwardScratch(float* memory, int64_t key_count, int64_t dim) {
    ScratchAllocator allocator(memory);
    keys = allocator.Allocate(key_count * dim);
    values = allocator.Allocate(key_count * dim);
    rows = allocator.Allocate(kQueries * dim);
    output = allocator.Allocate(kQueries * dim);
    scores = allocator.Allocate(kKeys * kQueries);
    queries = allocator.Allocate(kQueries * dim);  // the last: every task fills it
  }
  // Returns the number of floats that the constructor takes from `memory`.
  static constexpr int64_t Floats(int64_t key_count, int64_t dim) {
    return 2 * PaddedDim(key_count * dim) + 3 * kQueries * dim + kKeys * kQueries;
  }
};

// A worker's memory in the backward pass.
struct BackwardScratch {
  float *keys, *values;                   // [keys, dim]
  float *dkeys, *dvalues;                 // [keys, PaddedDim(dim)]
  float* rows;                            // [kQueries, dim]
  float *query_rows, *gradient_rows;      // [kQueries, PaddedDim(dim)]
  float *queries, *gradients, *dqueries;  // [dim, kQueries]
  float *scores, *dscores;                // [kKeys, kQueries]

  BackwardScratch(float* memory, int64_t key_count, int64_t dim) {
    ScratchAllocator allocator(memory);
    const int64_t row = PaddedDim(dim);
    keys = allocator.Allocate(key_count * dim);
    values = allocator.Allocate(key_count * dim);
    dkeys = allocator.Allocate(key_count * row);
    dvalues = allocator.Allocate(key_count * row);
    rows = allocator.Allocate(kQueries * dim);
    query_rows = allocator.Allocate(kQueries * row);
    gradient_rows = allocator.Allocate(kQueries * row);
    gradients = allocator.Allocate(kQueries * dim);
    dqueries = allocator.Allocate(kQueries * dim);
    scores = allocator.Allocate(kKeys * kQueries);
    dscores = allocator.Allocate(kKeys * kQueries);
    queries = allocator.Allocate(kQueries * dim);  // the last: every task fills it
  }
  // Returns the number of floats that the constructor takes from `memory`.
  static constexpr int64_t Floats(int64_t key_count, int64_t dim) {
    const int64_t row = PaddedDim(dim);
    return 2 * PaddedDim(key_count * dim) + 2 * key_count * row + 4 * kQueries * dim +
           2 * kQueries * row + 2 * kKeys * kQueries;
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ATTENTION_BLOCKS_H_
