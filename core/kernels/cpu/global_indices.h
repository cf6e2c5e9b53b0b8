// The indices, in a global tensor, of the elements that a random draw makes.
#ifndef TESSERA_CORE_KERNELS_CPU_GLOBAL_INDICES_H_
#define TESSERA_CORE_KERNELS_CPU_GLOBAL_INDICES_H_

#include <algorithm>
#include <cstdint>

#include "core/kernels/interface/random_draw.h"
#include "core/tensor/shape.h"

namespace tessera::cpu {

// Maps an element of the drawn output to its row-major index in the global tensor.
class GlobalIndices {
 public:
  GlobalIndices(const RandomDraw& draw, const Shape& shape)
      : shape_(draw.box.has_value() ? *draw.box : shape), skipped_(draw.first) {
    if (shape_ == draw.global) {  // One long row.
      shape_ = {NumElements(shape_)};
      strides_ = {1};
      return;
    }
    strides_ = RowMajorStrides(draw.global);
    first_ = FirstIndex(draw);
    if (shape_.empty()) {
      shape_ = {1};
      strides_ = {1};
    }
  }

  // Splits elements [begin, end) of the output into runs whose indices in the global tensor are
  // consecutive. Calls body(i, count, index) for each run [i, i + count), whose first element has
  // the index `index`.
  template <typename Body>
  void ForEachRun(int64_t begin, int64_t end, const Body& body) const {
    const int64_t row = shape_.back();
    while (begin < end) {
      int64_t index = first_, rest = skipped_ + begin;
      const int64_t count = std::min(end - begin, row - rest % row);
      for (int d = static_cast<int>(shape_.size()) - 1; d >= 0; --d) {
        index += rest % shape_[d] * strides_[d];
        rest /= shape_[d];
      }
      body(begin, count, index);
      begin += count;
    }
  }

 private:
  Shape shape_;          // of the box
  Strides strides_;      // of the global tensor
  int64_t skipped_ = 0;  // elements of the box before the output
  int64_t first_ = 0;
};

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_GLOBAL_INDICES_H_
