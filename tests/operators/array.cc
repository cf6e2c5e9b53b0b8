#include "tests/operators/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"

namespace tessera::operator_tests {
namespace {

constexpr int64_t kMarginElements = 16;

// Calls body(element offset) in row-major order.
template <typename Body>
void ForEachElement(const Array& array, Body body) {
  const Shape& shape = array.type.shape;
  const int64_t count = NumElements(shape);
  if (IsRowMajor(shape, array.strides)) {
    for (int64_t i = 0; i < count; ++i) body(array.offset + i);
    return;
  }
  const Strides row_major = RowMajorStrides(shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = array.offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      offset += i / row_major[d] % shape[d] * array.strides[d];
    }
    body(offset);
  }
}

double ReadElement(DType dtype, const char* from) {
  return WithElementType(dtype, [from](auto element) {
    std::memcpy(&element, from, sizeof(element));
    return Convert<double>(element);
  });
}

void WriteElement(DType dtype, double value, char* to) {
  WithElementType(dtype, [&](auto element) {
    element = Convert<decltype(element)>(value);
    std::memcpy(to, &element, sizeof(element));
  });
}

}  // namespace

Array MakeArray(const TensorType& type, const Strides& strides) {
  const int64_t elements = ExtentInElements(type.shape, strides) + 2 * kMarginElements;
  return {type, strides, kMarginElements,
          std::vector<char>(elements * SizeOf(type.dtype), kPoison)};
}

Array MakeArray(const TensorType& type) { return MakeArray(type, RowMajorStrides(type.shape)); }

Array MakeArray(const TensorType& type, absl::Span<const double> values) {
  Array array = MakeArray(type);
  SetValues(array, values);
  return array;
}

std::vector<double> Values(const Array& array) {
  const int64_t size = SizeOf(array.type.dtype);
  std::vector<double> values;
  values.reserve(NumElements(array.type.shape));
  ForEachElement(array, [&](int64_t at) {
    values.push_back(ReadElement(array.type.dtype, &array.bytes[at * size]));
  });
  return values;
}

void SetValues(Array& array, absl::Span<const double> values) {
  const int64_t size = SizeOf(array.type.dtype);
  size_t i = 0;
  ForEachElement(array, [&](int64_t at) {
    WriteElement(array.type.dtype, values[i++], &array.bytes[at * size]);
  });
}

Array WithStrides(const Array& array, const Strides& strides) {
  Array result = MakeArray(array.type, strides);
  const int64_t size = SizeOf(array.type.dtype);
  const std::vector<char> bits = Bits(array);
  const char* from = bits.data();
  ForEachElement(result, [&](int64_t at) {
    std::memcpy(&result.bytes[at * size], from, size);
    from += size;
  });
  return result;
}

Array RowMajor(const Array& array) { return WithStrides(array, RowMajorStrides(array.type.shape)); }

std::vector<char> Bits(const Array& array) {
  const int64_t size = SizeOf(array.type.dtype);
  std::vector<char> bits;
  bits.reserve(NumElements(array.type.shape) * size);
  ForEachElement(array, [&](int64_t at) {
    bits.insert(bits.end(), &array.bytes[at * size], &array.bytes[at * size] + size);
  });
  return bits;
}

bool MarginsAreUntouched(const Array& array) {
  const int64_t size = SizeOf(array.type.dtype);
  std::vector<char> rest = array.bytes;
  ForEachElement(array, [&](int64_t at) { std::memset(&rest[at * size], kPoison, size); });
  return std::all_of(rest.begin(), rest.end(), [](char byte) { return byte == kPoison; });
}

double Rounded(double value, DType dtype) {
  char bytes[sizeof(double)];
  WriteElement(dtype, value, bytes);
  return ReadElement(dtype, bytes);
}

double UnitRoundoff(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0x1p-24;
    case DType::kF64:
      return 0x1p-53;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
      return 0;
  }
  return 0;
}

namespace {

// Returns the distance from a number of 16 bits to the next larger one; 0 for other dtypes.
double StepOf16Bits(double value, DType dtype) {
  if (!IsHalf(dtype)) return 0;
  const double smallest = dtype == DType::kF16 ? 0x1p-24 : 0x1p-133;
  return std::max(2 * UnitRoundoff(dtype) * std::abs(value), smallest);
}

}  // namespace

std::string Difference(const Array& actual, absl::Span<const double> expected, double tolerance,
                       double magnitude) {
  const std::vector<double> values = Values(actual);
  if (values.size() != expected.size()) {
    return absl::StrCat(values.size(), " elements instead of ", expected.size());
  }
  double squares = 0;
  for (double value : expected) squares += std::isfinite(value) ? value * value : 0;
  const double rms = std::sqrt(squares / std::max<size_t>(1, expected.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const double wanted = Rounded(expected[i], actual.type.dtype);
    if (values[i] == wanted || (std::isnan(values[i]) && std::isnan(wanted))) continue;
    const double allowed =
        tolerance * (std::abs(wanted) + rms + magnitude) + StepOf16Bits(wanted, actual.type.dtype);
    if (std::isfinite(wanted) && std::abs(values[i] - wanted) <= allowed) continue;
    return absl::StrCat("element ", i, " of ", TypeToString(actual.type), " is ", values[i],
                        " instead of ", wanted, ", off by ", std::abs(values[i] - wanted),
                        " where ", allowed, " is allowed");
  }
  return "";
}

std::vector<StridePattern> StridePatterns(const Shape& shape) {
  const size_t rank = shape.size();
  if (rank == 0) return {};
  std::vector<StridePattern> patterns;
  // A part of a tensor that is wider along every dimension, as after a split.
  Strides wide(rank, 1);
  for (size_t d = rank - 1; d > 0; --d) wide[d - 1] = wide[d] * (shape[d] + 3);
  patterns.push_back({"wide rows", wide, /*contiguous_last=*/true});
  // The same, with a gap between any two elements.
  Strides spaced = wide;
  for (int64_t& stride : spaced) stride *= 2;
  patterns.push_back({"spaced elements", spaced});
  if (rank > 1) {
    Strides reversed(rank, 1);
    for (size_t d = 1; d < rank; ++d) reversed[d] = reversed[d - 1] * shape[d - 1];
    patterns.push_back({"reversed dimensions", reversed});
  }
  if (rank > 2) {
    // As the view [batch, seq, heads, head_dim] of a [batch, heads, seq, head_dim].
    Strides swapped = RowMajorStrides(shape);
    swapped[rank - 2] = shape[rank - 1] * shape[rank - 3];
    swapped[rank - 3] = shape[rank - 1];
    patterns.push_back({"swapped dimensions", swapped, /*contiguous_last=*/true});
  }
  for (size_t d = 0; d < rank; ++d) {
    if (shape[d] < 2) continue;
    Strides repeated = RowMajorStrides(shape);
    repeated[d] = 0;
    patterns.push_back({absl::StrCat("expanded along ", d), repeated,
                        /*contiguous_last=*/d + 1 < rank, /*repeats=*/true});
  }
  return patterns;
}

}  // namespace tessera::operator_tests
