#include "core/kernels/cpu/convert_floats.h"

#include <cstring>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/convert_floats.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <typename From, typename To>
void ConvertAll(const From* from, int64_t count, To* to) {
  ForEachVector(
      count, [=](auto access, int64_t i) HWY_ATTR { access.Store(access.Load(from + i), to + i); });
}

void BFloat16ToFloats(const BFloat16* from, int64_t count, float* to) {
  ConvertAll(from, count, to);
}
void Float16ToFloats(const Float16* from, int64_t count, float* to) { ConvertAll(from, count, to); }
void FloatsToBFloat16(const float* from, int64_t count, BFloat16* to) {
  ConvertAll(from, count, to);
}
void FloatsToFloat16(const float* from, int64_t count, Float16* to) { ConvertAll(from, count, to); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(BFloat16ToFloats);
HWY_EXPORT(Float16ToFloats);
HWY_EXPORT(FloatsToBFloat16);
HWY_EXPORT(FloatsToFloat16);

}  // namespace

void ToFloats(DType dtype, const void* from, int64_t count, float* to) {
  if (dtype == DType::kBF16) {
    HWY_DYNAMIC_DISPATCH(BFloat16ToFloats)(static_cast<const BFloat16*>(from), count, to);
  } else if (dtype == DType::kF16) {
    HWY_DYNAMIC_DISPATCH(Float16ToFloats)(static_cast<const Float16*>(from), count, to);
  } else if (count > 0) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

void FromFloats(DType dtype, const float* from, int64_t count, void* to) {
  if (dtype == DType::kBF16) {
    HWY_DYNAMIC_DISPATCH(FloatsToBFloat16)(from, count, static_cast<BFloat16*>(to));
  } else if (dtype == DType::kF16) {
    HWY_DYNAMIC_DISPATCH(FloatsToFloat16)(from, count, static_cast<Float16*>(to));
  } else if (count > 0) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
