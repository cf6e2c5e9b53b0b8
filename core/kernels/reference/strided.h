// Loops over tensors with any strides, and dispatch by element type.
//
// Everything here is for kernels that must be obviously right, not fast.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_STRIDED_H_
#define TESSERA_CORE_KERNELS_REFERENCE_STRIDED_H_

#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "absl/types/span.h"
#include "core/status/check.h"
#include "core/tensor/element_type.h"
#include "core/tensor/tensor_view.h"

namespace tessera::reference {

// Calls body(offset_0, offset_1, ...) for each index of `shape` in row-major order, where offset_k
// is the offset of this index with strides k.
template <size_t N, typename Body>
void ForEachIndex(absl::Span<const int64_t> shape, const std::array<Strides, N>& strides,
                  Body body) {
  if (NumElements(shape) == 0) return;
  Shape index(shape.size(), 0);
  std::array<int64_t, N> offsets{};
  while (true) {
    std::apply(body, offsets);
    int d = static_cast<int>(shape.size()) - 1;
    for (; d >= 0; --d) {
      ++index[d];
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][d];
      if (index[d] < shape[d]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][d] * shape[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Returns the sizes or strides of all dimensions except the last `count`.
template <typename Dims>
Dims Leading(const Dims& dims, int count) {
  return Dims(dims.begin(), dims.end() - count);
}

// The elements along one dimension.
struct Line {
  double* data;
  int64_t stride;

  double& operator[](int64_t i) const { return data[i * stride]; }
};

// Returns the line of `view` along its last dimension that starts at element `offset`.
inline Line LastLine(const TensorView& view, int64_t offset) {
  return {view.As<double>() + offset, view.strides.back()};
}

inline double Dot(Line a, Line b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Sets every element of a floating tensor to 0.
inline void SetZero(const TensorView& view) {
  ForEachIndex<1>(view.shape, {view.strides}, [&](int64_t i) { view.As<double>()[i] = 0; });
}

// Calls body(T{}) with the C++ type T of a dtype that this backend stores.
template <typename Body>
void WithKeptType(DType dtype, Body body) {
  TESSERA_CHECK(!IsFloating(dtype) || dtype == DType::kF64)
      << "the reference keeps floating tensors in f64, not " << DTypeName(dtype);
  WithElementType(dtype, [&body](auto element) {
    using T = decltype(element);
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>) body(element);
  });
}

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_STRIDED_H_
