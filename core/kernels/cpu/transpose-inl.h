// The transpose of a matrix of elements of 32 bits, by tiles of 4 x 4 in registers.
#include "core/kernels/cpu/vectors-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_TRANSPOSE_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

// to[c][r] = from[r][c], for `rows` rows and `columns` columns of `from`; `from_row` and `to_row`
// are the row strides, in elements.
template <class Element>
static HWY_NOINLINE HWY_MAYBE_UNUSED void Transpose(const Element* from, int64_t from_row,
                                                    int64_t rows, int64_t columns, Element* to,
                                                    int64_t to_row) {
  static_assert(sizeof(Element) == 4);
  int64_t tiled_rows = 0, tiled_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<Element, 4> d;
  const hn::FixedTag<double, 2> dd;
  tiled_rows = rows / 4 * 4;
  tiled_columns = columns / 4 * 4;
  for (int64_t r = 0; r < tiled_rows; r += 4) {
    for (int64_t c = 0; c < tiled_columns; c += 4) {
      const Element* const source = from + r * from_row + c;
      const auto row0 = hn::LoadU(d, source), row1 = hn::LoadU(d, source + from_row);
      const auto row2 = hn::LoadU(d, source + 2 * from_row);
      const auto row3 = hn::LoadU(d, source + 3 * from_row);
      // Interleaves pairs of rows by elements, then pairs of the results by halves.
      const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, row0, row1));
      const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, row2, row3));
      const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(d, row0, row1));
      const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(d, row2, row3));
      Element* const target = to + c * to_row + r;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, target);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, target + to_row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dd, high01, high23)), d, target + 2 * to_row);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dd, high01, high23)), d, target + 3 * to_row);
    }
  }
#endif
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < tiled_rows ? tiled_columns : 0; c < columns; ++c) {
      to[c * to_row + r] = from[r * from_row + c];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
