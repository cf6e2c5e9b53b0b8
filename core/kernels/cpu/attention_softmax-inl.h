// The steps of attention between its products: on blocks of scores [keys, kQueries], in f32.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/kernels/cpu/attention_blocks.h"
#include "core/kernels/cpu/math-inl.h"

#if defined(TESSERA_CORE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CORE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#undef TESSERA_CORE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#else
#define TESSERA_CORE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Multiplies lane l of each of `count` vectors of all queries by factors[l].
inline void ScaleLanes(const float* factors, int64_t count, float* lanes) {
  const FloatTag d;
  for (int64_t l = 0; l < kQueries; l += kLanes) {
    const Floats factor = hn::LoadU(d, factors + l);
    for (int64_t i = 0; i < count; ++i) {
      float* const vector = lanes + i * kQueries + l;
      hn::StoreU(hn::Mul(hn::LoadU(d, vector), factor), d, vector);
    }
  }
}

// Sets `scores[j][l]` to `value` if key `first_key` + j comes after query `first_query` + l.
inline void MaskLaterKeys(int64_t first_key, int64_t first_query, int64_t count, float value,
                          float* scores) {
  const FloatTag d;
  const Floats masked = hn::Set(d, value);
  for (int64_t j = 0; j < count; ++j) {
    // Lanes below this number belong to queries before the key.
    const int64_t before = std::min(first_key + j - first_query, kQueries);
    for (int64_t l = 0; l < before; l += kLanes) {
      StoreFirst(masked, scores + j * kQueries + l, std::min(before - l, kLanes));
    }
  }
}

// The running softmax of one block of queries: the maximum of the scores so far, and the sum of exp
// of the scores minus it, by lane.
struct Softmax {
  alignas(64) float max[kQueries];
  alignas(64) float sum[kQueries];

  void Start() {
    std::fill_n(max, kQueries, -kInfinity);
    std::fill_n(sum, kQueries, 0.0f);
  }

  // Adds the scores of `count` keys: replaces them by weights relative to the new maximum, and
  // rescales `output` [dim][kQueries] to it.
  void AddScores(int64_t count, int64_t dim, float* scores, float* output) {
    const FloatTag d;
    for (int64_t l = 0; l < kQueries; l += kLanes) {
      const Floats old_max = hn::Load(d, max + l);
      Floats new_max = old_max;
      for (int64_t j = 0; j < count; ++j) {
        new_max = hn::Max(new_max, hn::LoadU(d, scores + j * kQueries + l));
      }
      Floats added_sum = hn::Zero(d);
      for (int64_t j = 0; j < count; ++j) {
        float* const score = scores + j * kQueries + l;
        const Floats weight = ExpOfNegative(hn::Sub(hn::LoadU(d, score), new_max));
        added_sum = hn::Add(added_sum, weight);
        hn::StoreU(weight, d, score);
      }
      const Floats correction = ExpOfNegative(hn::Sub(old_max, new_max));
      hn::Store(hn::MulAdd(hn::Load(d, sum + l), correction, added_sum), d, sum + l);
      hn::Store(new_max, d, max + l);
      if (hn::AllTrue(d, hn::Eq(correction, hn::Set(d, 1.0f)))) continue;
      for (int64_t i = 0; i < dim; ++i) {
        float* const lanes = output + i * kQueries + l;
        hn::StoreU(hn::Mul(hn::LoadU(d, lanes), correction), d, lanes);
      }
    }
  }

  // Computes the factors that turn `output` into the mean of values, and the log-sum-exps.
  void Finish(float* factors, float* lse) const {
    const FloatTag d;
    const Floats zero = hn::Zero(d);
    for (int64_t l = 0; l < kQueries; l += kLanes) {
      const Floats total = hn::Load(d, sum + l);
      // Without a single key the mean is 0.
      const Floats inverse = hn::Div(hn::Set(d, 1.0f), total);
      hn::StoreU(hn::IfThenElse(hn::Eq(total, zero), zero, inverse), d, factors + l);
      hn::StoreU(hn::Add(hn::Load(d, max + l), Log(total)), d, lse + l);
    }
  }
};

// Replaces `scores` by weights, and `gradients`, which holds products of output gradients and
// values, by the gradients of scores.
inline void ScoreGradients(int64_t count, const float* lse, const float* delta, float* scores,
                           float* gradients) {
  const FloatTag d;
  for (int64_t l = 0; l < kQueries; l += kLanes) {
    const Floats row_lse = hn::LoadU(d, lse + l), row_delta = hn::LoadU(d, delta + l);
    for (int64_t j = 0; j < count; ++j) {
      float* const score = scores + j * kQueries + l;
      float* const gradient = gradients + j * kQueries + l;
      const Floats weight = ExpOfNegative(hn::Sub(hn::LoadU(d, score), row_lse));
      hn::StoreU(weight, d, score);
      hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, gradient), row_delta)), d, gradient);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard for each target
