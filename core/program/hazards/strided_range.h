// The elements or bytes of a buffer that a strided value covers, and the number that two values
// have in common.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_STRIDED_RANGE_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_STRIDED_RANGE_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace tessera {

class StridedRange {
 public:
  // `offset` counts elements from the start of the buffer. A dimension of stride 0 repeats
  // elements, which are counted once; other dimensions must not overlap each other.
  StridedRange(int64_t offset, absl::Span<const int64_t> shape, absl::Span<const int64_t> strides);
  // Elements [begin, end).
  StridedRange(int64_t begin, int64_t end);

  int64_t elements() const { return elements_; }
  int64_t begin() const { return offset_; }
  // One past the last element.
  int64_t end() const { return offset_ + (elements_ == 0 ? 0 : Extent(dims_, dims_.size())); }
  // Returns whether the range covers every element from its first to its last.
  bool contiguous() const { return end() - offset_ == elements_; }

  // Returns the number of elements that both ranges cover.
  static int64_t CommonElements(const StridedRange& a, const StridedRange& b);

 private:
  struct Dim {
    int64_t stride, size;
  };
  using Dims = absl::InlinedVector<Dim, 4>;  // strides ascend

  // Returns the extent of the first `count` dimensions.
  static int64_t Extent(const Dims& dims, size_t count);
  // Like the public CommonElements(), for the first a_count dimensions of `a` and b_count of `b`.
  // The first element of `a` is at 0 and that of `b` at `shift`.
  static int64_t CommonElements(const Dims& a, size_t a_count, const Dims& b, size_t b_count,
                                int64_t shift);

  int64_t offset_;
  int64_t elements_;
  Dims dims_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_STRIDED_RANGE_H_
