// attention and its gradient, one head of one sequence at a time.
//
// A vector's lanes are consecutive queries, so scores are stored transposed, [keys, queries]. The
// running maximum and sum of a query stay in its lane, nothing is added across lanes, and every
// head_dim is equally fast. A block of queries goes over the keys block by block; keys and values
// are copied to contiguous rows first, because rows that are a power of two apart in memory would
// map to the same few sets of the cache. No matrix of size seq x seq is stored.
//
// There are two kernels. One multiplies floats, to which it converts operands of 16 bits. The other
// takes bf16 and multiplies pairs of them, with sums in f32, if the processor has instructions for
// that. It rounds weights and the gradients of scores to bf16; the softmax between the products is
// f32. It scales scores, because scaled queries would be rounded; the other one scales queries,
// which are fewer.
//
// Sources: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
// "FlashAttention" (2022).
#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/attention.h"
#include "core/kernels/cpu/attention_blocks.h"
#include "core/kernels/cpu/attention_operands-inl.h"
#include "core/kernels/cpu/attention_softmax-inl.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/product-inl.h"
#include "core/kernels/cpu/transpose-inl.h"
#include "core/ops/attention.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// to[i][l] = rows[l][i] for `count` rows of `length` elements; the remaining lanes are 0.
template <class Element>
void RowsToLanes(const Element* rows, int64_t row, int64_t count, int64_t length, Element* to) {
  if (count < kQueries) std::fill_n(to, length * kQueries, Element{0});
  Transpose(rows, row, count, length, to, kQueries);
}

// scores[j][l] = keys[j] . queries[l], for `count` keys; both sums over head_dim, which has `depth`
// elements.
template <class Element>
HWY_INLINE void Scores(const Element* keys, const Element* queries, int64_t count, int64_t depth,
                       float* scores) {
  Product<Element>({keys, depth, 1, queries, kQueries, scores, kQueries, depth, false}, count,
                   kQueries);
}

// result[d][l] += sum over j of rows[j][d] * weights[j][l], for `count` keys. Pairs are along keys.
template <class Element>
HWY_INLINE void AddWeighted(const Element* rows, const Element* weights, int64_t count, int64_t dim,
                            float* result) {
  Product<Element>(
      {rows, 1, dim, weights, kQueries, result, kQueries, ElementsFor<Element>(count), true}, dim,
      kQueries);
}

// result[j][d] += sum over l of weights[j][l] * rows[l][d], for `keys` keys and `queries` queries.
// Pairs are along queries. head_dim is padded to `row`, full vectors.
template <class Element>
HWY_INLINE void AddTransposed(const Element* weights, const Element* rows, int64_t keys,
                              int64_t queries, int64_t row, float* result) {
  Product<Element>({weights, ElementsFor<Element>(kQueries), 1, rows, row, result, row,
                    ElementsFor<Element>(queries), true},
                   keys, row);
}

// Computes the attention of queries [begin, end) of a head, block by block.
template <class Element>
void AttentionChunkOf(const AttentionHead& head, int64_t begin, int64_t end, float* memory) {
  const ForwardScratch<Element> scratch(memory, head.keys, head.dim);
  const int64_t dim = head.dim, depth = ElementsFor<Element>(dim);
  const int64_t key_count = head.causal ? end : head.keys;
  ReadRows(head.k, 0, key_count, dim, scratch.keys);
  ReadAlongTokens(head.v, 0, key_count, dim, scratch.values, dim);
  float scales[kQueries];
  std::fill_n(scales, kQueries, head.scale);
  for (int64_t first = begin; first < end; first += kQueries) {
    const int64_t count = std::min(kQueries, end - first);
    ReadRows(head.q, first, count, dim, scratch.query_rows);
    RowsToLanes(scratch.query_rows, depth, count, depth, scratch.queries);
    if constexpr (!kIsPair<Element>) ScaleLanes(scales, dim, scratch.queries);
    std::fill_n(scratch.output, dim * kQueries, 0.0f);
    Softmax softmax;
    softmax.Start();
    const int64_t last_key = head.causal ? first + count : head.keys;
    for (int64_t j = 0; j < last_key; j += kKeys) {
      const int64_t keys = std::min(kKeys, last_key - j);
      Scores(scratch.keys + j * depth, scratch.queries, keys, depth, scratch.scores);
      if constexpr (kIsPair<Element>) ScaleLanes(scales, keys, scratch.scores);
      if (head.causal && j + keys > first) {
        MaskLaterKeys(j, first, keys, -kInfinity, scratch.scores);
      }
      softmax.AddScores(keys, dim, scratch.scores, scratch.output);
      AddWeighted(scratch.values + ElementsFor<Element>(j) * dim,
                  AlongKeys(scratch.scores, keys, scratch.weights), keys, dim, scratch.output);
    }
    float factors[kQueries], lse[kQueries];
    softmax.Finish(factors, lse);
    ScaleLanes(factors, dim, scratch.output);
    Transpose(scratch.output, kQueries, dim, count, scratch.rows, dim);
    head.o.Write(first, count, dim, scratch.rows, dim);
    for (int64_t l = 0; l < count; ++l) head.lse[(first + l) * head.lse_stride] = lse[l];
  }
}

void AttentionChunk(const AttentionHead& head, int64_t begin, int64_t end, bool in_pairs,
                    float* memory) {
  in_pairs ? AttentionChunkOf<BFloat16Pair>(head, begin, end, memory)
           : AttentionChunkOf<float>(head, begin, end, memory);
}

// Two numbers for each query of a block: its log-sum-exp, and the sum over head_dim of output times
// output gradient. In lanes without a query they make all weights 0.
struct QueryTerms {
  float lse[kQueries], delta[kQueries];

  void Read(const AttentionHead& head, int64_t first, int64_t count, float* outputs,
            float* gradients) {
    head.o.Read(first, count, head.dim, outputs, head.dim);
    head.d_o.Read(first, count, head.dim, gradients, head.dim);
    for (int64_t l = 0; l < kQueries; ++l) {
      lse[l] = kInfinity;
      delta[l] = 0;
      if (l >= count) continue;
      lse[l] = head.lse[(first + l) * head.lse_stride];
      double sum = 0;
      for (int64_t d = 0; d < head.dim; ++d) {
        sum += double{gradients[l * head.dim + d]} * double{outputs[l * head.dim + d]};
      }
      delta[l] = static_cast<float>(sum);
    }
  }
};

// Reads a block of queries, or of gradients of outputs, for products over head_dim (`lanes`) and
// over queries (`rows`).
template <class Element>
void ReadBlock(const HeadView& view, int64_t first, int64_t count, int64_t dim,
               const BackwardScratch<Element>& scratch, Element* lanes, Element* rows) {
  ReadAlongTokens(view, first, count, dim, rows, PaddedDim(dim));
  if constexpr (kIsPair<Element>) {
    const int64_t depth = ElementsFor<Element>(dim);
    ReadRows(view, first, count, dim, scratch.pair_rows);
    RowsToLanes(scratch.pair_rows, depth, count, depth, lanes);
  } else {
    RowsToLanes(rows, PaddedDim(dim), count, dim, lanes);
  }
}

// Computes the gradients of q, k and v of one head.
template <class Element>
void AttentionGradHeadOf(const AttentionHead& head, float* memory) {
  const BackwardScratch<Element> scratch(memory, head.keys, head.dim);
  const int64_t dim = head.dim, depth = ElementsFor<Element>(dim), row = PaddedDim(dim);
  float scales[kQueries];
  std::fill_n(scales, kQueries, head.scale);
  ReadRows(head.k, 0, head.keys, dim, scratch.keys);
  ReadRows(head.v, 0, head.keys, dim, scratch.values);
  if constexpr (kIsPair<Element>) {
    ReadAlongTokens(head.k, 0, head.keys, dim, scratch.keys_along_keys, dim);
  }
  std::fill_n(scratch.dkeys, head.keys * row, 0.0f);
  std::fill_n(scratch.dvalues, head.keys * row, 0.0f);
  std::fill_n(scratch.query_rows, ElementsFor<Element>(kQueries) * row, Element{0});
  std::fill_n(scratch.gradient_rows, ElementsFor<Element>(kQueries) * row, Element{0});
  for (int64_t first = 0; first < head.queries; first += kQueries) {
    const int64_t count = std::min(kQueries, head.queries - first);
    QueryTerms terms;
    terms.Read(head, first, count, scratch.rows, scratch.dqueries);
    ReadBlock(head.q, first, count, dim, scratch, scratch.queries, scratch.query_rows);
    if constexpr (!kIsPair<Element>) ScaleLanes(scales, dim, scratch.queries);
    ReadBlock(head.d_o, first, count, dim, scratch, scratch.gradients, scratch.gradient_rows);
    std::fill_n(scratch.dqueries, dim * kQueries, 0.0f);
    const int64_t last_key = head.causal ? first + count : head.keys;
    for (int64_t j = 0; j < last_key; j += kKeys) {
      const int64_t keys = std::min(kKeys, last_key - j);
      Scores(scratch.keys + j * depth, scratch.queries, keys, depth, scratch.scores);
      if constexpr (kIsPair<Element>) ScaleLanes(scales, keys, scratch.scores);
      if (head.causal && j + keys > first) {
        MaskLaterKeys(j, first, keys, -kInfinity, scratch.scores);
      }
      Scores(scratch.values + j * depth, scratch.gradients, keys, depth, scratch.dscores);
      ScoreGradients(keys, terms.lse, terms.delta, scratch.scores, scratch.dscores);
      AddWeighted(scratch.keys_along_keys + ElementsFor<Element>(j) * dim,
                  AlongKeys(scratch.dscores, keys, scratch.weights), keys, dim, scratch.dqueries);
      AddTransposed(AlongQueries(scratch.scores, keys, scratch.weights), scratch.gradient_rows,
                    keys, count, row, scratch.dvalues + j * row);
      AddTransposed(AlongQueries(scratch.dscores, keys, scratch.weights), scratch.query_rows, keys,
                    count, row, scratch.dkeys + j * row);
    }
    ScaleLanes(scales, dim, scratch.dqueries);
    Transpose(scratch.dqueries, kQueries, dim, count, scratch.rows, dim);
    head.dq.Write(first, count, dim, scratch.rows, dim);
  }
  for (int64_t i = 0; i < head.keys * row; ++i) scratch.dkeys[i] *= head.scale;
  head.dk.Write(0, head.keys, dim, scratch.dkeys, row);
  head.dv.Write(0, head.keys, dim, scratch.dvalues, row);
}

void AttentionGradHead(const AttentionHead& head, bool in_pairs, float* memory) {
  in_pairs ? AttentionGradHeadOf<BFloat16Pair>(head, memory)
           : AttentionGradHeadOf<float>(head, memory);
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

template <class Element>
int64_t AttentionWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const Shape& q = request.inputs[AttentionInput::kQ].shape;
  const Shape& k = request.inputs[AttentionInput::kK].shape;
  if (NumElements(q) == 0) return 0;  // no task would use it
  return request.threads * ForwardScratch<Element>::Floats(k[1], q[3]) *
         static_cast<int64_t>(sizeof(float));
}

template <class Element>
absl::Status Attention(const KernelCall& call) {
  const TensorView &q = call.inputs[AttentionInput::kQ], &k = call.inputs[AttentionInput::kK],
                   &v = call.inputs[AttentionInput::kV];
  const TensorView &o = call.outputs[AttentionOutput::kO],
                   &lse = call.outputs[AttentionOutput::kLse];
  const int64_t heads = q.shape[2], queries = q.shape[1];
  const int64_t chunks = (queries + kChunk - 1) / kChunk;
  const int64_t scratch_floats = ForwardScratch<Element>::Floats(k.shape[1], q.shape[3]);
  ParallelTasks(call.request.threads, q.shape[0] * heads * chunks, [&](int64_t task, int worker) {
    const int64_t b = task / chunks / heads, h = task / chunks % heads;
    const AttentionHead head(call.request.attributes, b, h, q, k, v, o, lse);
    float* const memory = static_cast<float*>(call.workspace) +
                          ScratchIndexOf(worker, call.request.threads) * scratch_floats;
    // The last chunks of a causal sequence take longest, so they are started first.
    const int64_t begin = (chunks - 1 - task % chunks) * kChunk;
    HWY_DYNAMIC_DISPATCH(AttentionChunk)
    (head, begin, std::min(queries, begin + kChunk), kIsPair<Element>, memory);
  });
  return absl::OkStatus();
}

template <class Element>
int64_t AttentionGradWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const Shape& q = request.inputs[AttentionGradInput::kQ].shape;
  const Shape& k = request.inputs[AttentionGradInput::kK].shape;
  if (q[0] * q[2] == 0) return 0;  // no task would use it
  return request.threads * BackwardScratch<Element>::Floats(k[1], q[3]) *
         static_cast<int64_t>(sizeof(float));
}

template <class Element>
absl::Status AttentionGrad(const KernelCall& call) {
  using Input = AttentionGradInput;
  const TensorView &q = call.inputs[Input::kQ], &k = call.inputs[Input::kK],
                   &v = call.inputs[Input::kV];
  const int64_t heads = q.shape[2];
  const int64_t scratch_floats = BackwardScratch<Element>::Floats(k.shape[1], q.shape[3]);
  ParallelTasks(call.request.threads, q.shape[0] * heads, [&](int64_t task, int worker) {
    const int64_t b = task / heads, h = task % heads;
    AttentionHead head(call.request.attributes, b, h, q, k, v, call.inputs[Input::kO],
                       call.inputs[Input::kLse]);
    head.d_o = HeadView(call.inputs[Input::kDo], b, h);
    head.dq = HeadView(call.outputs[AttentionGradOutput::kDq], b, h);
    head.dk = HeadView(call.outputs[AttentionGradOutput::kDk], b, h);
    head.dv = HeadView(call.outputs[AttentionGradOutput::kDv], b, h);
    float* const memory = static_cast<float*>(call.workspace) +
                          ScratchIndexOf(worker, call.request.threads) * scratch_floats;
    HWY_DYNAMIC_DISPATCH(AttentionGradHead)(head, kIsPair<Element>, memory);
  });
  return absl::OkStatus();
}

// Returns whether every operand is bf16 but the log-sum-exps, which are f32.
bool OperandsAreBFloat16(const KernelRequest& request) {
  return request.inputs[0].dtype == DType::kBF16;
}

template <class Element>
void AddKernels(absl::string_view name, bool (*accepts)(const KernelRequest&), KernelList& list) {
  list.Add("attention", name, Attention<Element>,
           {.accepts = accepts,
            .strided_inputs = 0b111,
            .strided_outputs = 0b11,
            .workspace_bytes = AttentionWorkspace<Element>});
  list.Add("attention_grad", name, AttentionGrad<Element>,
           {.accepts = accepts,
            .strided_inputs = 0b111111,
            .strided_outputs = 0b111,
            .workspace_bytes = AttentionGradWorkspace<Element>});
}

}  // namespace

void AddBFloat16AttentionKernels(KernelList& list) {
  AddKernels<BFloat16Pair>("highway_bf16", OperandsAreBFloat16, list);
}

void AddAttentionKernels(KernelList& list) {
  AddKernels<float>("highway", FloatsAreNotF64, list);
  if (MultipliesBFloat16()) AddBFloat16AttentionKernels(list);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
