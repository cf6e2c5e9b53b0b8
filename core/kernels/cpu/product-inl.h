// The product of small matrices in registers, which attention and small matmuls use.
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

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

// c[r][j] = (accumulate ? c[r][j] : 0) + sum over k of a(r, k) * b[k][j], where a(r, k) is a[r *
// a_row + k * a_depth], and b_row and c_row are the row strides of b and c. All strides are in
// elements; the width is a multiple of kLanes.
struct ProductArguments {
  const float* a;
  int64_t a_row, a_depth;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t depth;
  bool accumulate;
};

// Computes kRows rows of kVectors vectors of c, whose sums stay in registers.
template <int kRows, int kVectors>
HWY_INLINE void ProductTile(const ProductArguments& p) {
  const FloatTag d;
  Floats sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = p.accumulate ? hn::LoadU(d, p.c + r * p.c_row + v * kLanes) : hn::Zero(d);
    }
  }
  const float* a = p.a;
  const float* b = p.b;
  const int64_t a_row = p.a_row;
  for (int64_t k = 0; k < p.depth; ++k) {
    Floats columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const Floats factor = hn::Set(d, a[r * a_row]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
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
template <int kVectors>
HWY_INLINE void ProductStrip(ProductArguments p, int64_t rows) {
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
static HWY_NOINLINE HWY_MAYBE_UNUSED void Product(ProductArguments p, int64_t rows, int64_t width) {
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
