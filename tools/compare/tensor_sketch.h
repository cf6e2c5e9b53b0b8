// A summary of a tensor from which the distance to another tensor of the same shape can be
// estimated, although the two are never in one place.
//
// Thread safety: value types and pure functions.
#ifndef TESSERA_TOOLS_COMPARE_TENSOR_SKETCH_H_
#define TESSERA_TOOLS_COMPARE_TENSOR_SKETCH_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace tessera {

// The squared norm of a tensor, and its products with a few fixed tensors of random signs. Products
// of the difference of two tensors are the differences of their products, and the mean of their
// squares estimates its squared norm (Johnson and Lindenstrauss; Achlioptas, "Database-friendly
// random projections", 2003): with 8 products and many elements, it is too small by a factor of 100
// once in 10^7 times.
//
// Sketches of disjoint parts add up to that of the tensor, whichever way it is split.
struct TensorSketch {
  static constexpr int kProjections = 8;

  double squares = 0;
  std::array<double, kProjections> projections = {};

  // Adds elements of the tensor that are contiguous in its row-major order; `first` is the index of
  // the first one.
  void Add(int64_t first, absl::Span<const double> elements);
  TensorSketch& operator+=(const TensorSketch& other);

  double norm() const;
};

// Returns the sketch of a - b. Its squared norm is estimated.
TensorSketch Difference(const TensorSketch& a, const TensorSketch& b);

// Returns an estimate of the norm of a - b, not below the difference of their norms. It is 0 if all
// elements are equal, or if both have elements that are not finite, and not finite if only one has.
double Distance(const TensorSketch& a, const TensorSketch& b);

// Returns x if b = x a, up to a thousandth of the norm of b. Returns 0 if b is no multiple of a.
double FactorOf(const TensorSketch& a, const TensorSketch& b);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_TENSOR_SKETCH_H_
