// The operands of attention's products: floats, or pairs of bf16, which lie along the depth of a
// product. So a matrix is stored twice if two products sum over different dimensions of it.
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/attention_blocks.h"
#include "core/kernels/cpu/vectors-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_ATTENTION_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_ATTENTION_OPERANDS_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_ATTENTION_OPERANDS_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_ATTENTION_OPERANDS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

// Return the pair of two numbers, and of one number and 0.
HWY_INLINE BFloat16Pair PairOf(BFloat16 first, BFloat16 second) {
  return first.bits | static_cast<uint32_t>(second.bits) << 16;
}
HWY_INLINE BFloat16Pair PairOf(BFloat16 first) { return first.bits; }

// Read tokens [begin, begin + count) of a head as rows of ElementsFor(dim) elements, with pairs
// along head_dim.
HWY_INLINE void ReadRows(const HeadView& view, int64_t begin, int64_t count, int64_t dim,
                         float* rows) {
  view.Read(begin, count, dim, rows, dim);
}
HWY_INLINE void ReadRows(const HeadView& view, int64_t begin, int64_t count, int64_t dim,
                         BFloat16Pair* rows) {
  const int64_t step = view.element_stride;
  for (int64_t t = begin; t < begin + count; ++t) {
    const BFloat16* const token = static_cast<const BFloat16*>(view.data) + t * view.token_stride;
    for (int64_t d = 0; d + 2 <= dim; d += 2)
      *rows++ = PairOf(token[d * step], token[(d + 1) * step]);
    if (dim % 2 != 0) *rows++ = PairOf(token[(dim - 1) * step]);
  }
}

// Read tokens [begin, begin + count) of a head as ElementsFor(count) rows of `dim` elements, with
// pairs along tokens. `row` is the stride of rows.
HWY_INLINE void ReadAlongTokens(const HeadView& view, int64_t begin, int64_t count, int64_t dim,
                                float* rows, int64_t row) {
  view.Read(begin, count, dim, rows, row);
}
HWY_INLINE void ReadAlongTokens(const HeadView& view, int64_t begin, int64_t count, int64_t dim,
                                BFloat16Pair* rows, int64_t row) {
  const int64_t step = view.element_stride;
  for (int64_t t = 0; t < count; t += 2, rows += row) {
    const BFloat16* const first =
        static_cast<const BFloat16*>(view.data) + (begin + t) * view.token_stride;
    const BFloat16* const second = first + view.token_stride;
    if (t + 1 < count) {
      for (int64_t d = 0; d < dim; ++d) rows[d] = PairOf(first[d * step], second[d * step]);
    } else {
      for (int64_t d = 0; d < dim; ++d) rows[d] = PairOf(first[d * step]);
    }
  }
}

// Return weights [keys, kQueries] as operands [ElementsFor(keys), kQueries], with pairs along keys.
// Floats need no conversion; pairs are written to `converted`.
HWY_INLINE const float* AlongKeys(const float* weights, int64_t /*keys*/, float* /*converted*/) {
  return weights;
}
HWY_INLINE const BFloat16Pair* AlongKeys(const float* weights, int64_t keys,
                                         BFloat16Pair* converted) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> pairs;
  for (int64_t j = 0; j < keys; j += 2) {
    for (int64_t l = 0; l < kQueries; l += kLanes) {
      const float* const from = weights + j * kQueries + l;
      auto pair = RoundToBFloat16(hn::LoadU(d, from));
      if (j + 1 < keys) {
        const auto second = RoundToBFloat16(hn::LoadU(d, from + kQueries));
        pair = hn::Or(pair, hn::ShiftLeft<16>(second));
      }
      hn::StoreU(pair, pairs, converted + j / 2 * kQueries + l);
    }
  }
  return converted;
}

// The same as operands [keys, ElementsFor(kQueries)], with pairs along queries.
HWY_INLINE const float* AlongQueries(const float* weights, int64_t /*keys*/, float* /*converted*/) {
  return weights;
}
HWY_INLINE const BFloat16Pair* AlongQueries(const float* weights, int64_t keys,
                                            BFloat16Pair* converted) {
  char* to = reinterpret_cast<char*>(converted);
  for (int64_t i = 0; i < keys * kQueries; i += kLanes) {
    HWY_ALIGN uint16_t lanes[kLanes];
    hn::Store(Narrow(hn::LoadU(FloatTag(), weights + i), BFloat16()), HalfWordTag(), lanes);
    std::memcpy(to, lanes, sizeof(lanes));
    to += sizeof(lanes);
  }
  return converted;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
