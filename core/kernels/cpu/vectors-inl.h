// Vector loops over arrays of floats. The last, shorter vector is masked and runs the same code, so
// an element's result does not depend on its position.
//
// Arrays of bf16 and f16 are read as floats, and floats are rounded when they are stored to them.
// Only the functions here that load and store a vector distinguish these dtypes.
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/kernels/cpu/targets.h"
#include "core/tensor/half.h"
#include "hwy/highway.h"

#if defined(TESSERA_CORE_KERNELS_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_VECTORS_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_VECTORS_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_VECTORS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;
using DoubleTag = hn::ScalableTag<double>;
using Doubles = hn::Vec<DoubleTag>;
// A vector with as many floats as a vector of doubles has lanes.
using HalfTag = hn::Rebind<float, DoubleTag>;

inline constexpr int64_t kLanes = hn::MaxLanes(FloatTag());

// Whether masked loads and stores do not touch the memory of other lanes. If they do (NEON has
// none, and Highway reads, blends and writes a full vector), a short vector goes through a copy,
// because past the end of an array there may be elements that another thread writes, or no memory
// at all.
inline constexpr bool kHasMaskedAccess =
    HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_SCALAR;

// Loads the first `count` lanes; the others are 0 and their memory is not read.
template <bool kMasked = kHasMaskedAccess, class D>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const float* from, int64_t count) {
  if constexpr (kMasked) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
  } else {
    HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
    std::memcpy(lanes, from, static_cast<size_t>(count) * sizeof(float));
    return hn::Load(d, lanes);
  }
}

// Stores the first `count` lanes; the memory of the others is not written.
template <bool kMasked = kHasMaskedAccess>
HWY_INLINE void StoreFirst(Floats v, float* to, int64_t count) {
  const FloatTag d;
  if constexpr (kMasked) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
  } else {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, d, lanes);
    std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(float));
  }
}

// A vector of the bits of bf16 or f16 elements, as many as a vector has floats.
using HalfWordTag = hn::Rebind<uint16_t, FloatTag>;
using HalfWords = hn::Vec<HalfWordTag>;

HWY_INLINE Floats Widen(HalfWords bits, BFloat16 /*type*/) {
  const hn::RebindToUnsigned<FloatTag> d;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(d, bits)));
}

// Rounds to nearest, ties to even; the bits are those of BFloat16(float), in the low half of each
// lane. The high half is 0.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<FloatTag>> RoundToBFloat16(Floats v) {
  const hn::RebindToUnsigned<FloatTag> d;
  const auto word = hn::BitCast(d, v);
  const auto high = hn::ShiftRight<16>(word);
  const auto odd = hn::And(high, hn::Set(d, 1));
  const auto rounded =
      hn::ShiftRight<16>(hn::Add(word, hn::Add(odd, hn::Set(d, uint32_t{0x7fff}))));
  const auto nan = hn::Or(high, hn::Set(d, uint32_t{0x40}));
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), nan, rounded);
}
HWY_INLINE HalfWords Narrow(Floats v, BFloat16 /*type*/) {
  const hn::RebindToSigned<FloatTag> d;
  return hn::DemoteTo(HalfWordTag(), hn::BitCast(d, RoundToBFloat16(v)));
}

#if HWY_TARGET == HWY_SCALAR
// Highway's own conversion rounds differently on this target.
HWY_INLINE Floats Widen(HalfWords bits, Float16 type) {
  type.bits = hn::GetLane(bits);
  return hn::Set(FloatTag(), static_cast<float>(type));
}
HWY_INLINE HalfWords Narrow(Floats v, Float16 /*type*/) {
  return hn::Set(HalfWordTag(), Float16(hn::GetLane(v)).bits);
}
#else
HWY_INLINE Floats Widen(HalfWords bits, Float16 /*type*/) {
  const hn::Rebind<hwy::float16_t, FloatTag> d;
  return hn::PromoteTo(FloatTag(), hn::BitCast(d, bits));
}
// Every NaN becomes the NaN of Float16(float).
HWY_INLINE HalfWords Narrow(Floats v, Float16 /*type*/) {
  const FloatTag d;
  const Floats nan = hn::CopySign(hn::Set(d, std::numeric_limits<float>::quiet_NaN()), v);
  const Floats known = hn::IfThenElse(hn::IsNaN(v), nan, v);
  return hn::BitCast(HalfWordTag(), hn::DemoteTo(hn::Rebind<hwy::float16_t, FloatTag>(), known));
}
#endif

// Return the address of the bits of 16-bit elements.
template <class Half>
HWY_INLINE const uint16_t* WordsOf(const Half* from) {
  return &from->bits;
}
template <class Half>
HWY_INLINE uint16_t* WordsOf(Half* to) {
  return &to->bits;
}

// Reads and writes a full vector: all lanes are used.
struct FullVector {
  HWY_INLINE Floats Load(const float* from) const { return hn::LoadU(FloatTag(), from); }
  HWY_INLINE void Store(Floats v, float* to) const { hn::StoreU(v, FloatTag(), to); }
  template <class Half>
  HWY_INLINE Floats Load(const Half* from) const {
    return Widen(hn::LoadU(HalfWordTag(), WordsOf(from)), Half());
  }
  template <class Half>
  HWY_INLINE void Store(Floats v, Half* to) const {
    hn::StoreU(Narrow(v, Half()), HalfWordTag(), WordsOf(to));
  }
  // Returns `v`, with `other` in unused lanes.
  HWY_INLINE Floats WithUnusedLanes(Floats v, Floats /*other*/) const { return v; }
};

// Reads and writes the first `count` lanes of a vector. The memory of the other lanes is neither
// read (they are 0) nor written.
struct ShortVector {
  int64_t count;
  HWY_INLINE Floats Load(const float* from) const { return LoadFirst(FloatTag(), from, count); }
  HWY_INLINE void Store(Floats v, float* to) const { StoreFirst(v, to, count); }
  // Goes through a copy, because few targets have masks for elements of 16 bits.
  template <class Half>
  HWY_INLINE Floats Load(const Half* from) const {
    HWY_ALIGN uint16_t lanes[kLanes] = {};
    std::memcpy(lanes, from, static_cast<size_t>(count) * sizeof(Half));
    return Widen(hn::Load(HalfWordTag(), lanes), Half());
  }
  template <class Half>
  HWY_INLINE void Store(Floats v, Half* to) const {
    HWY_ALIGN uint16_t lanes[kLanes];
    hn::Store(Narrow(v, Half()), HalfWordTag(), lanes);
    std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(Half));
  }
  // Returns `v`, with `other` in unused lanes.
  HWY_INLINE Floats WithUnusedLanes(Floats v, Floats other) const {
    return hn::IfThenElse(hn::FirstN(FloatTag(), static_cast<size_t>(count)), v, other);
  }
};

// Calls body(access, i) for i = 0, kLanes, ... below `count`; `access` is a FullVector, or at the
// end a ShortVector.
template <class Body>
HWY_INLINE void ForEachVector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(FullVector(), i);
  if (i < count) body(ShortVector{count - i}, i);
}

// Computes kSums sums over arrays of `count` elements: body(access, i, terms) sets one vector of
// terms for each sum. Sums are fp32 within blocks of 64 vectors and double over blocks; the order
// depends on `count` alone.
template <int kSums, class Body>
HWY_INLINE void SumVectors(int64_t count, const Body& body, double (&sums)[kSums]) {
  constexpr int kChains = 4;
  constexpr int64_t kBlock = 64 * kLanes;
  const Floats zero = hn::Zero(FloatTag());
  for (double& sum : sums) sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = HWY_MIN(begin + kBlock, count);
    Floats chains[kSums][kChains];
    for (int s = 0; s < kSums; ++s) {
      for (int c = 0; c < kChains; ++c) chains[s][c] = zero;
    }
    int64_t i = begin;
    for (; i + kChains * kLanes <= end; i += kChains * kLanes) {
      for (int c = 0; c < kChains; ++c) {
        Floats terms[kSums];
        body(FullVector(), i + c * kLanes, terms);
        for (int s = 0; s < kSums; ++s) chains[s][c] = hn::Add(chains[s][c], terms[s]);
      }
    }
    for (; i + kLanes <= end; i += kLanes) {
      Floats terms[kSums];
      body(FullVector(), i, terms);
      for (int s = 0; s < kSums; ++s) chains[s][0] = hn::Add(chains[s][0], terms[s]);
    }
    if (i < end) {
      const ShortVector rest{end - i};
      Floats terms[kSums];
      body(rest, i, terms);
      for (int s = 0; s < kSums; ++s) {
        chains[s][0] = hn::Add(chains[s][0], rest.WithUnusedLanes(terms[s], zero));
      }
    }
    for (int s = 0; s < kSums; ++s) {
      const Floats sum =
          hn::Add(hn::Add(chains[s][0], chains[s][1]), hn::Add(chains[s][2], chains[s][3]));
      sums[s] += hn::GetLane(hn::SumOfLanes(FloatTag(), sum));
    }
  }
}

// Returns the largest of `count` floats, or -infinity if there are none. A NaN may be ignored.
HWY_INLINE float MaxOfFloats(const float* x, int64_t count) {
  const FloatTag d;
  const Floats lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  Floats max0 = lowest, max1 = lowest, max2 = lowest, max3 = lowest;
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    max0 = hn::Max(max0, hn::LoadU(d, x + i));
    max1 = hn::Max(max1, hn::LoadU(d, x + i + kLanes));
    max2 = hn::Max(max2, hn::LoadU(d, x + i + 2 * kLanes));
    max3 = hn::Max(max3, hn::LoadU(d, x + i + 3 * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) max0 = hn::Max(max0, hn::LoadU(d, x + i));
  if (i < count) {
    const ShortVector rest{count - i};
    max1 = hn::Max(max1, rest.WithUnusedLanes(rest.Load(x + i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3))));
}

// The same of floats of any dtype, one vector after the other.
template <typename T>
HWY_INLINE float MaxOfElements(const T* x, int64_t count) {
  const FloatTag d;
  const Floats lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  Floats max = lowest;
  ForEachVector(count, [&, x](auto access, int64_t i) HWY_ATTR {
    max = hn::Max(max, access.WithUnusedLanes(access.Load(x + i), lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
