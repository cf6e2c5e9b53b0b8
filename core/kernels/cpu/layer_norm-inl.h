// The steps of layer norm and of its gradient on `count` consecutive elements of one row: all of
// them (layer_norm.cc), or those that a device has (layer_norm_parts.cc).
#include <cstdint>

#include "core/kernels/cpu/layer_norm_rows.h"
#include "core/kernels/cpu/targets.h"
#include "core/kernels/cpu/vectors-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_LAYER_NORM_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_LAYER_NORM_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_LAYER_NORM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE double SumOfElements(const T* x, int64_t count) {
  double sum[1];
  SumVectors<1>(
      count, [=](auto access, int64_t i, Floats* terms) HWY_ATTR { terms[0] = access.Load(x + i); },
      sum);
  return sum[0];
}

// Returns the sum of (x - mean)^2.
template <typename T>
HWY_INLINE double SumOfSquares(const T* x, float mean_of_row, int64_t count) {
  const Floats mean = hn::Set(FloatTag(), mean_of_row);
  double squares[1];
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        const Floats distance = hn::Sub(access.Load(x + i), mean);
        terms[0] = hn::Mul(distance, distance);
      },
      squares);
  return squares[0];
}

// Computes y = (x - mean) * rstd * weight + bias.
template <typename T>
HWY_INLINE void Normalize(const T* x, float mean_of_row, float rstd_of_row, const T* weight,
                          const T* bias, int64_t count, T* y) {
  const FloatTag d;
  const Floats mean = hn::Set(d, mean_of_row), rstd = hn::Set(d, rstd_of_row);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats normal = hn::Mul(hn::Sub(access.Load(x + i), mean), rstd);
    access.Store(hn::MulAdd(normal, access.Load(weight + i), access.Load(bias + i)), y + i);
  });
}

// Add a vector of elements to the gradients of weight and bias, or to none.
struct AddToWeights {
  float *dweight, *dbias;

  template <class Access>
  HWY_INLINE void operator()(Access access, int64_t i, Floats gradient, Floats normal) const {
    access.Store(hn::MulAdd(gradient, normal, access.Load(dweight + i)), dweight + i);
    access.Store(hn::Add(gradient, access.Load(dbias + i)), dbias + i);
  }
};
struct AddNowhere {
  template <class Access>
  HWY_INLINE void operator()(Access /*access*/, int64_t /*i*/, Floats /*gradient*/,
                             Floats /*normal*/) const {}
};

// Adds what the elements contribute to the gradients of weight and bias.
template <typename T>
HWY_INLINE void AddGradient(const T* dy, const T* x, float mean_of_row, float rstd_of_row,
                            int64_t count, AddToWeights add) {
  const FloatTag d;
  const Floats mean = hn::Set(d, mean_of_row), rstd = hn::Set(d, rstd_of_row);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    add(access, i, access.Load(dy + i), hn::Mul(hn::Sub(access.Load(x + i), mean), rstd));
  });
}

// Sets `sums` to those of dy * weight and of dy * weight * (x - mean) * rstd. Calls `add` with each
// vector of elements.
template <typename T, class Add>
HWY_INLINE void SumChanges(const T* dy, const T* x, const T* weight, float mean_of_row,
                           float rstd_of_row, int64_t count, double (&sums)[2], Add add) {
  const FloatTag d;
  const Floats mean = hn::Set(d, mean_of_row), rstd = hn::Set(d, rstd_of_row);
  SumVectors<2>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        const Floats gradient = access.Load(dy + i);
        const Floats normal = hn::Mul(hn::Sub(access.Load(x + i), mean), rstd);
        add(access, i, gradient, normal);
        terms[0] = hn::Mul(gradient, access.Load(weight + i));
        terms[1] = hn::Mul(terms[0], normal);
      },
      sums);
}

// Computes dx, which may be at the address of dy.
template <typename T>
HWY_INLINE void ApplyChanges(const T* dy, const T* x, const T* weight, const RowGradient& row,
                             int64_t count, T* dx) {
  const FloatTag d;
  const Floats mean = hn::Set(d, row.mean), rstd = hn::Set(d, row.rstd);
  const Floats mean_change = hn::Set(d, row.change);
  const Floats mean_normal_change = hn::Set(d, row.normal_change);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats change = hn::Mul(access.Load(dy + i), access.Load(weight + i));
    const Floats normal = hn::Mul(hn::Sub(access.Load(x + i), mean), rstd);
    const Floats rest = hn::NegMulAdd(normal, mean_normal_change, hn::Sub(change, mean_change));
    access.Store(hn::Mul(rest, rstd), dx + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
