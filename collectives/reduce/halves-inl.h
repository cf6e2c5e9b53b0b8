// Converts arrays of bf16 and fp16 to and from fp32; compiled for each of Highway's targets.
#include <cstdint>
#include <cstring>

#include "core/tensor/half.h"
#include "hwy/highway.h"

#if defined(TESSERA_COLLECTIVES_REDUCE_HALVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_COLLECTIVES_REDUCE_HALVES_INL_H_
#undef TESSERA_COLLECTIVES_REDUCE_HALVES_INL_H_
#else
#define TESSERA_COLLECTIVES_REDUCE_HALVES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::comm {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Plain integer arithmetic, which the compiler vectorizes with this target's instructions.
inline void FromBFloat16(const void* from, int64_t count, float* to) {
  const uint16_t* const bits = static_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = uint32_t{bits[i]} << 16;
    std::memcpy(to + i, &word, sizeof(word));
  }
}

inline void ToBFloat16(const float* from, int64_t count, void* to) {
  uint16_t* const bits = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, from + i, sizeof(word));
    const uint32_t nan = word >> 16 | 0x40u;
    const uint32_t rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
    bits[i] = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

inline void FromFloat16(const void* from, int64_t count, float* to) {
  const Float16* const halves = static_cast<const Float16*>(from);
  int64_t i = 0;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // which has instructions for it
  const hn::ScalableTag<float> tag;
  const hn::Rebind<hwy::float16_t, decltype(tag)> half_tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  for (; i + lanes <= count; i += lanes) {
    const auto* const source = reinterpret_cast<const hwy::float16_t*>(halves + i);
    hn::StoreU(hn::PromoteTo(tag, hn::LoadU(half_tag, source)), tag, to + i);
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(halves[i]);
}

inline void ToFloat16(const float* from, int64_t count, void* to) {
  Float16* const halves = static_cast<Float16*>(to);
  int64_t i = 0;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::ScalableTag<float> tag;
  const hn::Rebind<hwy::float16_t, decltype(tag)> half_tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  for (; i + lanes <= count; i += lanes) {
    // All NaNs become one, as in Float16.
    const auto x = hn::LoadU(tag, from + i);
    const auto nan = hn::CopySign(hn::NaN(tag), x);
    const auto half = hn::DemoteTo(half_tag, hn::IfThenElse(hn::IsNaN(x), nan, x));
    hn::StoreU(half, half_tag, reinterpret_cast<hwy::float16_t*>(halves + i));
  }
#endif
  for (; i < count; ++i) halves[i] = Float16(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::comm
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
