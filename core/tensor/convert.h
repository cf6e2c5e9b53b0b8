// The conversion of one element from any dtype to any other, rounded once.
//
// To a floating dtype it rounds to nearest, ties to even. From a floating dtype to an integer it
// truncates toward zero; a value out of range becomes the nearest integer in range, and NaN becomes
// 0. Between integers it keeps the low bits.
#ifndef TESSERA_CORE_TENSOR_CONVERT_H_
#define TESSERA_CORE_TENSOR_CONVERT_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/types/span.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_type.h"
#include "core/tensor/half.h"

namespace tessera {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// Rounds to the float on either side of `value` whose last bit is odd. A second rounding, to fewer
// bits, then gives the same as one rounding of `value`.
inline float RoundToOdd(double value) {
  float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || !std::isfinite(rounded)) return rounded;
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof(bits));
  if (std::abs(static_cast<double>(rounded)) > std::abs(value)) --bits;
  bits |= 1;
  std::memcpy(&rounded, &bits, sizeof(bits));
  return rounded;
}

// Rounds an integer to a double in the same way: if any bit that the double cannot hold is set, the
// last bit that it holds is set.
inline double RoundToOdd(int64_t value) {
  if (value > -(int64_t{1} << 53) && value < (int64_t{1} << 53)) return static_cast<double>(value);
  return static_cast<double>((value >> 11 | ((value & 0x7ff) != 0 ? 1 : 0))) * 2048.0;
}

template <typename To, typename From>
To TruncateToInteger(From value) {
  // The bounds are exact: powers of two.
  constexpr From kEnd = std::is_same_v<To, uint8_t>   ? From(256)
                        : std::is_same_v<To, int32_t> ? From(2147483648.0)
                                                      : From(9223372036854775808.0);
  constexpr From kBegin = std::is_same_v<To, uint8_t> ? From(0) : -kEnd;
  if (value >= kEnd) return std::numeric_limits<To>::max();
  if (value <= kBegin) return std::numeric_limits<To>::min();
  return std::isnan(value) ? To{0} : static_cast<To>(value);
}

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return Convert<To>(static_cast<float>(value));
  } else if constexpr (kIsHalf<To>) {
    if constexpr (std::is_same_v<From, float>) return To(value);
    if constexpr (std::is_same_v<From, double>) return To(RoundToOdd(value));
    if constexpr (std::is_integral_v<From>) return To(RoundToOdd(RoundToOdd(int64_t{value})));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return TruncateToInteger<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// Converts to.size() elements of a dtype.
inline void ToDoubles(DType dtype, const void* elements, absl::Span<double> to) {
  WithElementType(dtype, [&](auto element) {
    const auto* const from = static_cast<const decltype(element)*>(elements);
    for (size_t i = 0; i < to.size(); ++i) to[i] = Convert<double>(from[i]);
  });
}

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_CONVERT_H_
