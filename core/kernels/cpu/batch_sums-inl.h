// Sums over positions of a batch, channel by channel: terms are f32, sums are double.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
#include "core/kernels/cpu/vectors-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_BATCH_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_BATCH_SUMS_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_BATCH_SUMS_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_BATCH_SUMS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

// Adds the rows [4, pitch] of `terms` to `sums`, of which `count` are used.
HWY_INLINE void AddFourRows(const float* terms, int64_t pitch, int64_t count, double* sums) {
  const DoubleTag d;
  const HalfTag dh;
  constexpr int64_t kStep = hn::MaxLanes(DoubleTag());
  const float *const a = terms, *const b = a + pitch, *const c = b + pitch, *const e = c + pitch;
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const Doubles low =
        hn::Add(hn::PromoteTo(d, hn::LoadU(dh, a + i)), hn::PromoteTo(d, hn::LoadU(dh, b + i)));
    const Doubles high =
        hn::Add(hn::PromoteTo(d, hn::LoadU(dh, c + i)), hn::PromoteTo(d, hn::LoadU(dh, e + i)));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(low, high)), d, sums + i);
  }
  // The same bits: an addition of doubles is the same in scalars and in vectors.
  for (; i < count; ++i) {
    sums[i] += (double{a[i]} + double{b[i]}) + (double{c[i]} + double{e[i]});
  }
}

// Adds terms of `positions` positions to kSums sums [kSums, channels]: body(access, position,
// channel, terms) sets one vector of terms for each sum.
template <int kSums, class Body>
HWY_INLINE void AddPositions(int64_t positions, int64_t channels, const Body& body, double* sums) {
  constexpr int64_t kStrip = 256;  // channels
  HWY_ALIGN float tile[kSums][4 * kStrip];
  for (int64_t begin = 0; begin < channels; begin += kStrip) {
    const int64_t count = HWY_MIN(kStrip, channels - begin);
    for (int64_t p = 0; p < positions; p += 4) {
      for (int64_t r = 0; r < 4; ++r) {
        ForEachVector(count, [&](auto access, int64_t i) HWY_ATTR {
          Floats terms[kSums];
          for (int s = 0; s < kSums; ++s) terms[s] = hn::Zero(FloatTag());
          if (p + r < positions) body(access, p + r, begin + i, terms);
          for (int s = 0; s < kSums; ++s) {
            hn::Store(terms[s], FloatTag(), tile[s] + r * kStrip + i);
          }
        });
      }
      for (int s = 0; s < kSums; ++s) {
        AddFourRows(tile[s], kStrip, count, sums + s * channels + begin);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
