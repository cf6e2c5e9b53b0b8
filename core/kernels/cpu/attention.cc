// attention and its gradient, one head of one sequence at a time.
//
// A vector's lanes are consecutive queries, so scores are stored transposed, [keys, queries]. The
// running maximum and sum of a query stay in its lane, nothing is added across lanes, and every
// head_dim is equally fast. A block of queries goes over the keys block by block; keys and values
// are copied to contiguous rows first, because rows that are a power of two apart in memory would
// map to the same few sets of the cache. No matrix of size seq x seq is stored.
//
// Sources: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
// "FlashAttention" (2022).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/attention_blocks.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/math-inl.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/transpose-inl.h"
#include "core/ops/attention.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// to[d][l] = rows[l][d] for `count` rows; the remaining lanes are 0.
void RowsToLanes(const float* rows, int64_t row, int64_t count, int64_t dim, float* to) {
  if (count < kQueries) std::fill_n(to, dim * kQueries, 0.0f);
  Transpose(rows, row, count, dim, to, kQueries);
}

// Multiplies lane l of each of `count` vectors of all queries by factors[l].
void ScaleLanes(const float* factors, int64_t count, float* lanes) {
  const FloatTag d;
  for (int64_t l = 0; l < kQueries; l += kLanes) {
    const Floats factor = hn::LoadU(d, factors + l);
    for (int64_t i = 0; i < count; ++i) {
      float* const vector = lanes + i * kQueries + l;
      hn::StoreU(hn::Mul(hn::LoadU(d, vector), factor), d, vector);
    }
  }
}

// scores[j][l] = keys[j] . queries[l], for `count` keys; both sums over head_dim.
HWY_INLINE void Scores(const float* keys, const float* queries, int64_t count, int64_t dim,
                       float* scores) {
  Product({keys, dim, 1, queries, kQueries, scores, kQueries, dim, false}, count, kQueries);
}

// result[d][l] += sum over j of rows[j][d] * weights[j][l]
HWY_INLINE void AddWeighted(const float* rows, const float* weights, int64_t count, int64_t dim,
                            float* result) {
  Product({rows, 1, dim, weights, kQueries, result, kQueries, count, true}, dim, kQueries);
}

// Sets `scores[j][l]` to `value` if key `first_key` + j comes after query `first_query` + l.
void MaskLaterKeys(int64_t first_key, int64_t first_query, int64_t count, float value,
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

// Computes the attention of queries [begin, end) of a head, block by block.
void AttentionChunk(const AttentionHead& head, int64_t begin, int64_t end,
                    const ForwardScratch& scratch) {
  const int64_t dim = head.dim;
  const int64_t key_count = head.causal ? end : head.keys;
  head.k.Read(0, key_count, dim, scratch.keys, dim);
  head.v.Read(0, key_count, dim, scratch.values, dim);
  float scales[kQueries];
  std::fill_n(scales, kQueries, head.scale);
  for (int64_t first = begin; first < end; first += kQueries) {
    const int64_t count = std::min(kQueries, end - first);
    head.q.Read(first, count, dim, scratch.rows, dim);
    RowsToLanes(scratch.rows, dim, count, dim, scratch.queries);
    ScaleLanes(scales, dim, scratch.queries);
    std::fill_n(scratch.output, dim * kQueries, 0.0f);
    Softmax softmax;
    softmax.Start();
    const int64_t last_key = head.causal ? first + count : head.keys;
    for (int64_t j = 0; j < last_key; j += kKeys) {
      const int64_t keys = std::min(kKeys, last_key - j);
      Scores(scratch.keys + j * dim, scratch.queries, keys, dim, scratch.scores);
      if (head.causal && j + keys > first) {
        MaskLaterKeys(j, first, keys, -kInfinity, scratch.scores);
      }
      softmax.AddScores(keys, dim, scratch.scores, scratch.output);
      AddWeighted(scratch.values + j * dim, scratch.scores, keys, dim, scratch.output);
    }
    float factors[kQueries], lse[kQueries];
    softmax.Finish(factors, lse);
    ScaleLanes(factors, dim, scratch.output);
    Transpose(scratch.output, kQueries, dim, count, scratch.rows, dim);
    head.o.Write(first, count, dim, scratch.rows, dim);
    for (int64_t l = 0; l < count; ++l) head.lse[(first + l) * head.lse_stride] = lse[l];
  }
}

// Replaces `scores` by weights, and `gradients`, which holds products of output gradients and
// values, by the gradients of scores.
void ScoreGradients(int64_t count, const float* lse, const float* delta, float* scores,
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

// Two numbers for each query of a block: its log-sum-exp, and the sum over head_dim of output times
// output gradient. In lanes without a query they make all weights 0.
struct QueryTerms {
  float lse[kQueries], delta[kQueries];

  void Read(const AttentionHead& head, int64_t first, int64_t count, const float* gradients,
            int64_t row, float* outputs) {
    head.o.Read(first, count, head.dim, outputs, head.dim);
    for (int64_t l = 0; l < kQueries; ++l) {
      lse[l] = kInfinity;
      delta[l] = 0;
      if (l >= count) continue;
      lse[l] = head.lse[(first + l) * head.lse_stride];
      double sum = 0;
      for (int64_t d = 0; d < head.dim; ++d) {
        sum += double{gradients[l * row + d]} * double{outputs[l * head.dim + d]};
      }
      delta[l] = static_cast<float>(sum);
    }
  }
};

// Computes the gradients of q, k and v of one head.
void AttentionGradHead(const AttentionHead& head, const BackwardScratch& scratch) {
  const int64_t dim = head.dim, row = PaddedDim(dim);
  float scales[kQueries];
  std::fill_n(scales, kQueries, head.scale);
  head.k.Read(0, head.keys, dim, scratch.keys, dim);
  head.v.Read(0, head.keys, dim, scratch.values, dim);
  std::fill_n(scratch.dkeys, head.keys * row, 0.0f);
  std::fill_n(scratch.dvalues, head.keys * row, 0.0f);
  std::fill_n(scratch.query_rows, kQueries * row, 0.0f);
  std::fill_n(scratch.gradient_rows, kQueries * row, 0.0f);
  for (int64_t first = 0; first < head.queries; first += kQueries) {
    const int64_t count = std::min(kQueries, head.queries - first);
    head.q.Read(first, count, dim, scratch.query_rows, row);
    head.d_o.Read(first, count, dim, scratch.gradient_rows, row);
    QueryTerms terms;
    terms.Read(head, first, count, scratch.gradient_rows, row, scratch.rows);
    RowsToLanes(scratch.query_rows, row, count, dim, scratch.queries);
    ScaleLanes(scales, dim, scratch.queries);
    RowsToLanes(scratch.gradient_rows, row, count, dim, scratch.gradients);
    std::fill_n(scratch.dqueries, dim * kQueries, 0.0f);
    const int64_t last_key = head.causal ? first + count : head.keys;
    for (int64_t j = 0; j < last_key; j += kKeys) {
      const int64_t keys = std::min(kKeys, last_key - j);
      Scores(scratch.keys + j * dim, scratch.queries, keys, dim, scratch.scores);
      if (head.causal && j + keys > first) {
        MaskLaterKeys(j, first, keys, -kInfinity, scratch.scores);
      }
      Scores(scratch.values + j * dim, scratch.gradients, keys, dim, scratch.dscores);
      ScoreGradients(keys, terms.lse, terms.delta, scratch.scores, scratch.dscores);
      AddWeighted(scratch.keys + j * dim, scratch.dscores, keys, dim, scratch.dqueries);
      // Sums over queries; the width is head_dim, padded to full vectors.
      Product({scratch.scores, kQueries, 1, scratch.gradient_rows, row, scratch.dvalues + j * row,
               row, count, true},
              keys, row);
      Product({scratch.dscores, kQueries, 1, scratch.query_rows, row, scratch.dkeys + j * row, row,
               count, true},
              keys, row);
    }
    ScaleLanes(scales, dim, scratch.dqueries);
    Transpose(scratch.dqueries, kQueries, dim, count, scratch.rows, dim);
    head.dq.Write(first, count, dim, scratch.rows, dim);
  }
  for (int64_t i = 0; i < head.keys * row; ++i) scratch.dkeys[i] *= head.scale;
  head.dk.Write(0, head.keys, dim, scratch.dkeys, row);
  head.dv.Write(0, head.keys, dim, scratch.dvalues, row);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(AttentionChunk);
HWY_EXPORT(AttentionGradHead);

// Queries of one task of the forward pass.
constexpr int64_t kChunk = 8 * kQueries;

int64_t AttentionWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const Shape& q = request.inputs[AttentionInput::kQ].shape;
  const Shape& k = request.inputs[AttentionInput::kK].shape;
  if (NumElements(q) == 0) return 0;  // no task would use it
  return request.threads * ForwardScratch::Floats(k[1], q[3]) * static_cast<int64_t>(sizeof(float));
}

absl::Status Attention(const KernelCall& call) {
  const TensorView &q = call.inputs[AttentionInput::kQ], &k = call.inputs[AttentionInput::kK],
                   &v = call.inputs[AttentionInput::kV];
  const TensorView &o = call.outputs[AttentionOutput::kO],
                   &lse = call.outputs[AttentionOutput::kLse];
  const int64_t heads = q.shape[2], queries = q.shape[1];
  const int64_t chunks = (queries + kChunk - 1) / kChunk;
  const int64_t scratch_floats = ForwardScratch::Floats(k.shape[1], q.shape[3]);
  ParallelTasks(call.request.threads, q.shape[0] * heads * chunks, [&](int64_t task, int worker) {
    const int64_t b = task / chunks / heads, h = task / chunks % heads;
    const AttentionHead head(call.request.attributes, b, h, q, k, v, o, lse);
    const ForwardScratch scratch(static_cast<float*>(call.workspace) +
                                     ScratchIndexOf(worker, call.request.threads) * scratch_floats,
                                 head.keys, head.dim);
    // The last chunks of a causal sequence take longest, so they are started first.
    const int64_t begin = (chunks - 1 - task % chunks) * kChunk;
    HWY_DYNAMIC_DISPATCH(AttentionChunk)
    (head, begin, std::min(queries, begin + kChunk), scratch);
  });
  return absl::OkStatus();
}

int64_t AttentionGradWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const Shape& q = request.inputs[AttentionGradInput::kQ].shape;
  const Shape& k = request.inputs[AttentionGradInput::kK].shape;
  if (q[0] * q[2] == 0) return 0;  // no task would use it
  return request.threads * BackwardScratch::Floats(k[1], q[3]) *
         static_cast<int64_t>(sizeof(float));
}

absl::Status AttentionGrad(const KernelCall& call) {
  using Input = AttentionGradInput;
  const TensorView &q = call.inputs[Input::kQ], &k = call.inputs[Input::kK],
                   &v = call.inputs[Input::kV];
  const int64_t heads = q.shape[2];
  const int64_t scratch_floats = BackwardScratch::Floats(k.shape[1], q.shape[3]);
  ParallelTasks(call.request.threads, q.shape[0] * heads, [&](int64_t task, int worker) {
    const int64_t b = task / heads, h = task % heads;
    AttentionHead head(call.request.attributes, b, h, q, k, v, call.inputs[Input::kO],
                       call.inputs[Input::kLse]);
    head.d_o = HeadView(call.inputs[Input::kDo], b, h);
    head.dq = HeadView(call.outputs[AttentionGradOutput::kDq], b, h);
    head.dk = HeadView(call.outputs[AttentionGradOutput::kDk], b, h);
    head.dv = HeadView(call.outputs[AttentionGradOutput::kDv], b, h);
    const BackwardScratch scratch(static_cast<float*>(call.workspace) +
                                      ScratchIndexOf(worker, call.request.threads) * scratch_floats,
                                  head.keys, head.dim);
    HWY_DYNAMIC_DISPATCH(AttentionGradHead)(head, scratch);
  });
  return absl::OkStatus();
}

}  // namespace

void AddAttentionKernels(KernelList& list) {
  list.Add("attention", "highway", Attention,
           {.accepts = FloatsAreNotF64,
            .strided_inputs = 0b111,
            .strided_outputs = 0b11,
            .workspace_bytes = AttentionWorkspace});
  list.Add("attention_grad", "highway", AttentionGrad,
           {.accepts = FloatsAreNotF64,
            .strided_inputs = 0b111111,
            .strided_outputs = 0b111,
            .workspace_bytes = AttentionGradWorkspace});
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
