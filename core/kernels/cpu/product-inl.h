// The product of small matrices in registers, which attention and small matmuls use: of floats, or
// of pairs of bf16 along the depth, whose sums are floats too.
//
// Each element of the result is one sum, with fused multiply-adds in the order of the depth: it
// does not depend on its position or on how the product is split.
#include "core/kernels/cpu/vectors-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_PRODUCT_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_PRODUCT_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_PRODUCT_INL_H_
#endif

// Highway's AVX3 has no instructions for bf16, so this file adds them. The compiler uses them where
// the code says so only: in products of pairs, which are called if the processor has them.
#if HWY_TARGET == HWY_AVX3
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace tessera::cpu {
namespace HWY_NAMESPACE {

// A vector of pairs of bf16. The first of a pair is in the low half of a lane.
using Pairs = hn::Vec<hn::RebindToUnsigned<FloatTag>>;

// Return sum + a * b, for pairs the sum of both products.
HWY_INLINE Floats AddProduct(Floats a, Floats b, Floats sum) { return hn::MulAdd(a, b, sum); }
HWY_INLINE Floats AddProduct(Pairs a, Pairs b, Floats sum) {
#if HWY_TARGET == HWY_AVX3
  return Floats{_mm512_dpbf16_ps(sum.raw, (__m512bh)a.raw, (__m512bh)b.raw)};
#else
  const FloatTag d;
  const Pairs high = hn::Set(hn::RebindToUnsigned<FloatTag>(), 0xffff0000u);
  sum = hn::MulAdd(hn::BitCast(d, hn::And(a, high)), hn::BitCast(d, hn::And(b, high)), sum);
  return hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(a)), hn::BitCast(d, hn::ShiftLeft<16>(b)),
                    sum);
#endif
}

// c[r][j] = (accumulate ? c[r][j] : 0) + sum over k of a(r, k) * b[k][j], where a(r, k) is a[r *
// a_row + k * a_depth], and b_row and c_row are the row strides of b and c. All strides are in
// elements; the width is a multiple of kLanes. An element of a and b is a float, or a pair of bf16
// as in a lane of Pairs.
template <class Element>
struct ProductArguments {
  const Element* a;
  int64_t a_row, a_depth;
  const Element* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t depth;
  bool accumulate;
};

// Computes kRows rows of kVectors vectors of c, whose sums stay in registers.
template <int kRows, int kVectors, class Element>
HWY_INLINE void ProductTile(const ProductArguments<Element>& p) {
  const FloatTag d;
  const hn::Rebind<Element, FloatTag> elements;
  Floats sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = p.accumulate ? hn::LoadU(d, p.c + r * p.c_row + v * kLanes) : hn::Zero(d);
    }
  }
  const Element* a = p.a;
  const Element* b = p.b;
  const int64_t a_row = p.a_row;
  for (int64_t k = 0; k < p.depth; ++k) {
    hn::Vec<decltype(elements)> columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(elements, b + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(elements, a[r * a_row]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = AddProduct(factor, columns[v], sums[r][v]);
      }
    }
    a += p.a_depth;
    b += p.b_row;
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, p.c + r * p.c_row + v * kLanes);
    }
  }
}

// A tile's sums, the vectors of b and one factor fill the 32 or 16 registers.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTileRows = 8;
inline constexpr int kTileVectors = 3;
#else
inline constexpr int kTileRows = 4;
inline constexpr int kTileVectors = 3;
#endif

// Computes `rows` rows of kVectors vectors of c.
template <int kVectors, class Element>
HWY_INLINE void ProductStrip(ProductArguments<Element> p, int64_t rows) {
  while (rows >= kTileRows) {
    ProductTile<kTileRows, kVectors>(p);
    p.a += kTileRows * p.a_row;
    p.c += kTileRows * p.c_row;
    rows -= kTileRows;
  }
  while (rows > 0) {
    ProductTile<1, kVectors>(p);
    p.a += p.a_row;
    p.c += p.c_row;
    --rows;
  }
}

// Computes c, which has `rows` rows of `width` elements, a multiple of kLanes.
template <class Element>
static HWY_NOINLINE HWY_MAYBE_UNUSED void Product(ProductArguments<Element> p, int64_t rows,
                                                  int64_t width) {
  int64_t vectors = width / kLanes;  // of a row that remain
  while (vectors > 0) {
    // Four vectors are split into two and two, not three and one.
    const int64_t strip = vectors >= kTileVectors && vectors != kTileVectors + 1 ? kTileVectors
                          : vectors >= 2                                         ? 2
                                                                                 : 1;
    if (strip == kTileVectors) {
      ProductStrip<kTileVectors>(p, rows);
    } else if (strip == 2) {
      ProductStrip<2>(p, rows);
    } else {
      ProductStrip<1>(p, rows);
    }
    p.b += strip * kLanes;
    p.c += strip * kLanes;
    vectors -= strip;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
