// Tensors of the tests: bytes on the host, with the offset and strides of the elements.
#ifndef TESSERA_TESTS_OPERATORS_ARRAY_H_
#define TESSERA_TESTS_OPERATORS_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace tessera::operator_tests {

// The value of every unwritten byte of an array. Floating numbers of these bytes are NaN in any
// dtype.
inline constexpr char kPoison = static_cast<char>(0xFF);

struct Array {
  TensorType type;
  Strides strides;
  int64_t offset = 0;       // of the first element, in elements
  std::vector<char> bytes;  // the elements, and the bytes between and around them
};

// Makes a poisoned array with a margin on both sides of the elements.
Array MakeArray(const TensorType& type, const Strides& strides);
Array MakeArray(const TensorType& type);  // row-major
Array MakeArray(const TensorType& type, absl::Span<const double> values);

// Returns all elements in row-major order. Integers beyond 2^53 are not exact.
std::vector<double> Values(const Array& array);
void SetValues(Array& array, absl::Span<const double> values);

// Returns a copy of the elements at other strides.
Array WithStrides(const Array& array, const Strides& strides);
Array RowMajor(const Array& array);
// Returns the elements' bytes in row-major order, by which two arrays can be compared bit for bit.
std::vector<char> Bits(const Array& array);
// Returns whether the bytes between and around the elements are still poisoned.
bool MarginsAreUntouched(const Array& array);

// Returns the nearest number that the dtype can represent.
double Rounded(double value, DType dtype);

// Returns "" if every element of `actual` is close to its expected value, rounded to the dtype.
// Otherwise describes the first one that is not. The bound is `tolerance` times the sum of three
// magnitudes: of the element, of the root mean square of all elements, and `magnitude`, that of the
// values from which they were computed. Elements of 16 bits may be one step of their dtype further.
std::string Difference(const Array& actual, absl::Span<const double> expected, double tolerance,
                       double magnitude = 0);

// Returns half of the distance between 1 and the next number, the largest relative error of
// rounding.
double UnitRoundoff(DType dtype);

// A pattern of strides other than row-major, for a kernel that accepts any strides.
struct StridePattern {
  std::string name;
  Strides strides;
  bool contiguous_last = false;  // the last dimension
  bool repeats = false;          // different indices share an element: for inputs only
};
std::vector<StridePattern> StridePatterns(const Shape& shape);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_ARRAY_H_
