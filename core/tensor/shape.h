// Shapes and strides: sizes and steps in elements, outermost dimension first.
#ifndef TESSERA_CORE_TENSOR_SHAPE_H_
#define TESSERA_CORE_TENSOR_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"

namespace tessera {

// Sizes of dimensions (all >= 0); [] is a scalar of one element. Most tensors have at most 4
// dimensions, and a Program of many micro-batches has a million shapes.
using Shape = absl::InlinedVector<int64_t, 4>;
// Elements between consecutive indices of each dimension.
using Strides = absl::InlinedVector<int64_t, 4>;

// The dtype and shape of a tensor, without its address.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  friend bool operator==(const TensorType& a, const TensorType& b) {
    return a.dtype == b.dtype && a.shape == b.shape;
  }
  friend bool operator!=(const TensorType& a, const TensorType& b) { return !(a == b); }
};

int64_t NumElements(absl::Span<const int64_t> shape);
int64_t NumBytes(const TensorType& type);
Strides RowMajorStrides(absl::Span<const int64_t> shape);

// Returns whether elements are contiguous in row-major order. Strides of dimensions of size 1 are
// ignored.
bool IsRowMajor(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides);

// Returns one past the largest element offset of a strided tensor; 0 if it has no elements.
int64_t ExtentInElements(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides);

// "[2, 3]"
std::string ShapeToString(absl::Span<const int64_t> shape);
// "f32[2, 3]"
std::string TypeToString(const TensorType& type);

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_SHAPE_H_
