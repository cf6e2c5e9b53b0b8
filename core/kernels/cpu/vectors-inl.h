// Loops over arrays of floats by vectors. The last, shorter vector is a masked one that goes
// through the same code, so an element's result does not depend on where it lies.
#include <cstdint>
#include <limits>

#include "core/kernels/cpu/targets.h"
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
// As many floats as a vector of doubles has lanes.
using HalfTag = hn::Rebind<float, DoubleTag>;

inline constexpr int64_t kLanes = hn::MaxLanes(FloatTag());

// How a body reads and writes a vector of which all lanes count.
struct WholeVector {
  HWY_INLINE Floats Load(const float* from) const { return hn::LoadU(FloatTag(), from); }
  HWY_INLINE void Store(Floats v, float* to) const { hn::StoreU(v, FloatTag(), to); }
  // `v`, with `other` in lanes that do not count.
  HWY_INLINE Floats Or(Floats v, Floats /*other*/) const { return v; }
};

// The same where only the first lanes count: the others are neither read (they are 0) nor written.
struct PartOfVector {
  hn::Mask<FloatTag> mask;
  HWY_INLINE Floats Load(const float* from) const { return hn::MaskedLoad(mask, FloatTag(), from); }
  HWY_INLINE void Store(Floats v, float* to) const { hn::BlendedStore(v, mask, FloatTag(), to); }
  HWY_INLINE Floats Or(Floats v, Floats other) const { return hn::IfThenElse(mask, v, other); }
};

HWY_INLINE PartOfVector FirstLanes(int64_t count) {
  return {hn::FirstN(FloatTag(), static_cast<size_t>(count))};
}

// Calls body(access, i) for i = 0, kLanes, ... below `count`; `access` is a WholeVector, or at the
// end a PartOfVector.
template <class Body>
HWY_INLINE void ForEachVector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(WholeVector(), i);
  if (i < count) body(FirstLanes(count - i), i);
}

// The sums of kSums terms over arrays of `count`: body(access, i, terms) sets a vector of each. In
// fp32 over blocks of 64 vectors, in double over blocks; the order depends on `count` alone.
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
        body(WholeVector(), i + c * kLanes, terms);
        for (int s = 0; s < kSums; ++s) chains[s][c] = hn::Add(chains[s][c], terms[s]);
      }
    }
    for (; i + kLanes <= end; i += kLanes) {
      Floats terms[kSums];
      body(WholeVector(), i, terms);
      for (int s = 0; s < kSums; ++s) chains[s][0] = hn::Add(chains[s][0], terms[s]);
    }
    if (i < end) {
      const PartOfVector part = FirstLanes(end - i);
      Floats terms[kSums];
      body(part, i, terms);
      for (int s = 0; s < kSums; ++s) {
        chains[s][0] = hn::Add(chains[s][0], part.Or(terms[s], zero));
      }
    }
    for (int s = 0; s < kSums; ++s) {
      const Floats sum =
          hn::Add(hn::Add(chains[s][0], chains[s][1]), hn::Add(chains[s][2], chains[s][3]));
      sums[s] += hn::GetLane(hn::SumOfLanes(FloatTag(), sum));
    }
  }
}

// The largest of `count` floats, -infinity if there are none. A NaN may be passed over.
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
    const PartOfVector part = FirstLanes(count - i);
    max1 = hn::Max(max1, part.Or(part.Load(x + i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(max0, max1), hn::Max(max2, max3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
