// The 16-bit floating types, as bits with conversions to and from float.
//
// Conversions from float round to nearest, ties to even; NaN stays NaN.
#ifndef TESSERA_CORE_TENSOR_HALF_H_
#define TESSERA_CORE_TENSOR_HALF_H_

#include <cstdint>
#include <cstring>

namespace tessera {

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    if ((word & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((word >> 16) | 0x40u);  // quiet, and never an infinity
    } else {
      bits = static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
};

struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit Float16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    const uint32_t sign = (word >> 16) & 0x8000u;
    const uint32_t magnitude = word & 0x7fffffffu;
    uint32_t half;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
      half = 0x7c00u;
    } else if (magnitude < 0x38800000u) {
      // Subnormal: adding 0.5 aligns the mantissa so that the FPU does the rounding.
      float positive;
      std::memcpy(&positive, &magnitude, sizeof(positive));
      positive += 0.5f;
      uint32_t aligned;
      std::memcpy(&aligned, &positive, sizeof(aligned));
      half = aligned - 0x3f000000u;
    } else {
      half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    uint32_t word;
    if (exponent == 0x1f) {
      word = sign | 0x7f800000u | (mantissa << 13);
    } else if (exponent != 0) {
      word = sign | ((exponent + 112) << 23) | (mantissa << 13);
    } else {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      std::memcpy(&word, &magnitude, sizeof(word));
      word |= sign;
    }
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_HALF_H_
