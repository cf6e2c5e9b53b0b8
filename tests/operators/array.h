// Tensors of the tests: bytes on the host that know where their elements lie among them.
#ifndef TESSERA_TESTS_OPERATORS_ARRAY_H_
#define TESSERA_TESTS_OPERATORS_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace tessera::operator_tests {

// Every byte of an array that has not been written: as a floating number of any dtype a NaN.
inline constexpr char kPoison = static_cast<char>(0xFF);

struct Array {
  TensorType type;
  Strides strides;
  int64_t offset = 0;       // of the first element, in elements
  std::vector<char> bytes;  // the elements, and what lies between and around them
};

// Poisoned, with a margin on both sides of the elements.
Array MakeArray(const TensorType& type, const Strides& strides);
Array MakeArray(const TensorType& type);  // row-major
Array MakeArray(const TensorType& type, absl::Span<const double> values);

// All elements in row-major order. Integers beyond 2^53 are not exact.
std::vector<double> Values(const Array& array);
void SetValues(Array& array, absl::Span<const double> values);

// The same elements elsewhere.
Array WithStrides(const Array& array, const Strides& strides);
Array RowMajor(const Array& array);
// The elements' bytes in row-major order: two arrays hold the same bits if these are equal.
std::vector<char> Bits(const Array& array);
// Whether what lies between and around the elements is as it was made.
bool MarginsAreUntouched(const Array& array);

// The nearest number that the dtype can hold.
double Rounded(double value, DType dtype);

// "" if every element of `actual` is near its expected value, rounded to the dtype: no further than
// `tolerance` times the sum of its own magnitude, of the root mean square of all, and of
// `magnitude`, that of what they were computed from; an element of 16 bits one step of its dtype
// further. Else the first one that is not.
std::string Difference(const Array& actual, absl::Span<const double> expected, double tolerance,
                       double magnitude = 0);

// Distance between 1 and the next number, halved: what rounding costs.
double UnitRoundoff(DType dtype);

// Ways to lie in memory other than row-major, for a kernel that takes any strides.
struct StridePattern {
  std::string name;
  Strides strides;
  bool contiguous_last = false;  // the last dimension
  bool repeats = false;          // different indices share an element: for inputs only
};
std::vector<StridePattern> StridePatterns(const Shape& shape);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_ARRAY_H_
