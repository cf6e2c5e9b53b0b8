// The blocks of attention, and their addresses in a worker's part of the workspace. The workspace
// is linear in the length of a sequence.
#ifndef TESSERA_CORE_KERNELS_CPU_ATTENTION_BLOCKS_H_
#define TESSERA_CORE_KERNELS_CPU_ATTENTION_BLOCKS_H_

#include <cstdint>
#include <type_traits>

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

// Splits a worker's memory into arrays that begin at cache lines. Without memory it counts only.
class ScratchAllocator {
 public:
  explicit ScratchAllocator(float* memory) : memory_(memory) {}
  // Returns the next array, of so many elements of the size of a float.
  template <class Element>
  Element* Allocate(int64_t elements) {
    static_assert(sizeof(Element) == sizeof(float));
    float* const array = memory_ == nullptr ? nullptr : memory_ + floats_;
    floats_ += PaddedDim(elements);
    return reinterpret_cast<Element*>(array);
  }
  // Returns the size of all arrays so far.
  int64_t floats() const { return floats_; }

 private:
  float* memory_;
  int64_t floats_ = 0;
};

// An element of an operand of a product is a float, or a pair of bf16 (product-inl.h).
using BFloat16Pair = uint32_t;
template <class Element>
inline constexpr bool kIsPair = std::is_same_v<Element, BFloat16Pair>;

// Returns the number of elements that hold `count` numbers. The last pair is padded.
template <class Element>
constexpr int64_t ElementsFor(int64_t count) {
  return kIsPair<Element> ? (count + 1) / 2 : count;
}

// The elements of a block of weights that is converted to operands. Floats are not.
template <class Element>
inline constexpr int64_t kWeights = kIsPair<Element> ? kKeys / 2 * kQueries : 0;

// A worker's memory in the forward pass, for operands of floats or of pairs. E(n) is
// ElementsFor(n).
template <class Element>
struct ForwardScratch {
  Element* keys;         // [keys, E(dim)]
  Element* values;       // [E(keys), dim]
  Element* weights;      // [E(kKeys), kQueries] of pairs; of floats the scores are used
  Element* query_rows;   // [kQueries, E(dim)], in the memory of `rows`
  Element* queries;      // [E(dim), kQueries]
  float *rows, *output;  // [kQueries, dim], [dim, kQueries]
  float* scores;         // [kKeys, kQueries]
  int64_t floats;        // of all arrays

  ForwardScratch(float* memory, int64_t key_count, int64_t dim) {
    ScratchAllocator allocator(memory);
    keys = allocator.Allocate<Element>(key_count * ElementsFor<Element>(dim));
    values = allocator.Allocate<Element>(ElementsFor<Element>(key_count) * dim);
    weights = allocator.Allocate<Element>(kWeights<Element>);
    rows = allocator.Allocate<float>(kQueries * dim);
    query_rows = reinterpret_cast<Element*>(rows);
    output = allocator.Allocate<float>(kQueries * dim);
    scores = allocator.Allocate<float>(kKeys * kQueries);
    // The last: every task fills it.
    queries = allocator.Allocate<Element>(ElementsFor<Element>(dim) * kQueries);
    floats = allocator.floats();
  }
  static int64_t Floats(int64_t key_count, int64_t dim) {
    return ForwardScratch(nullptr, key_count, dim).floats;
  }
};

// A worker's memory in the backward pass.
template <class Element>
struct BackwardScratch {
  Element *keys, *values;               // [keys, E(dim)]
  Element* keys_along_keys;             // [E(keys), dim]; of floats: `keys`
  float *dkeys, *dvalues;               // [keys, PaddedDim(dim)]
  float* rows;                          // [kQueries, dim]
  Element* pair_rows;                   // [kQueries, E(dim)], in the memory of `rows`
  Element *query_rows, *gradient_rows;  // [E(kQueries), PaddedDim(dim)]
  Element *queries, *gradients;         // [E(dim), kQueries]
  float* dqueries;                      // [dim, kQueries]
  float *scores, *dscores;              // [kKeys, kQueries]
  // [E(kKeys), kQueries] or [kKeys, E(kQueries)] of pairs; of floats `scores` or `dscores` are used
  Element* weights;
  int64_t floats;  // of all arrays

  BackwardScratch(float* memory, int64_t key_count, int64_t dim) {
    ScratchAllocator allocator(memory);
    const int64_t row = PaddedDim(dim), depth = ElementsFor<Element>(dim);
    const int64_t block_row = ElementsFor<Element>(kQueries) * row;
    keys = allocator.Allocate<Element>(key_count * depth);
    values = allocator.Allocate<Element>(key_count * depth);
    keys_along_keys = keys;
    if (kIsPair<Element>) {
      keys_along_keys = allocator.Allocate<Element>(ElementsFor<Element>(key_count) * dim);
    }
    dkeys = allocator.Allocate<float>(key_count * row);
    dvalues = allocator.Allocate<float>(key_count * row);
    rows = allocator.Allocate<float>(kQueries * dim);
    pair_rows = reinterpret_cast<Element*>(rows);
    query_rows = allocator.Allocate<Element>(block_row);
    gradient_rows = allocator.Allocate<Element>(block_row);
    gradients = allocator.Allocate<Element>(depth * kQueries);
    dqueries = allocator.Allocate<float>(kQueries * dim);
    scores = allocator.Allocate<float>(kKeys * kQueries);
    dscores = allocator.Allocate<float>(kKeys * kQueries);
    weights = allocator.Allocate<Element>(kWeights<Element>);
    queries = allocator.Allocate<Element>(depth * kQueries);  // the last: every task fills it
    floats = allocator.floats();
  }
  static int64_t Floats(int64_t key_count, int64_t dim) {
    return BackwardScratch(nullptr, key_count, dim).floats;
  }
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_ATTENTION_BLOCKS_H_
