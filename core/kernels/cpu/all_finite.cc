// all_finite: an element is finite if not all bits of its exponent are set.
#include <atomic>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/all_finite.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Returns whether `count` floats are finite.
bool AllFiniteRun(const float* x, int64_t count) {
  const hn::RebindToSigned<FloatTag> d;
  const auto exponent = hn::Set(d, 0x7f800000);
  auto found = hn::FirstN(d, 0);
  ForEachVector(count, [&, x](auto access, int64_t i) HWY_ATTR {
    const auto bits = hn::And(hn::BitCast(d, access.Load(x + i)), exponent);
    found = hn::Or(found, hn::Eq(bits, exponent));
  });
  return hn::AllFalse(d, found);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {
HWY_EXPORT(AllFiniteRun);

// Returns whether elements [begin, end) of x, of any floating dtype, are finite.
bool AllFiniteInRange(const TensorView& x, int64_t begin, int64_t end) {
  if (x.dtype == DType::kF32) {
    return HWY_DYNAMIC_DISPATCH(AllFiniteRun)(x.As<float>() + begin, end - begin);
  }
  constexpr int64_t kTile = 2048;
  alignas(64) float tile[kTile];
  bool all_finite = true;
  for (int64_t i = begin; i < end && all_finite; i += kTile) {
    const int64_t count = std::min(kTile, end - i);
    ToFloats(x.dtype, ElementAt(x.dtype, x.data, i), count, tile);
    all_finite = HWY_DYNAMIC_DISPATCH(AllFiniteRun)(tile, count);
  }
  return all_finite;
}

absl::Status AllFinite(const KernelCall& call) {
  std::atomic<bool> all_finite{true};
  for (const TensorView& x : call.inputs) {
    ParallelFor(call.request.threads, x.elements(), 16384, [&](int64_t begin, int64_t end) {
      if (!AllFiniteInRange(x, begin, end)) {
        all_finite.store(false, std::memory_order_relaxed);
      }
    });
  }
  *call.outputs[0].As<uint8_t>() = all_finite.load() ? 1 : 0;
  return absl::OkStatus();
}

}  // namespace

void AddAllFiniteKernels(KernelList& list) {
  list.Add("all_finite", "highway", AllFinite, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
