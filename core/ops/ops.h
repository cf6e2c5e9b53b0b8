// The functions with which a model is recorded. Each records one or a few operators
// (docs/operators.md says what each computes) on Tensor handles and returns handles of the results.
// If an operand does not fit, the Graph records an error (Graph::status) and the result is invalid.
//
// Broadcasting follows numpy's rules. Thread safety: as for Graph, one thread records.
//
// Record at most one operator in an argument list. C++ does not define the order in which arguments
// are evaluated, and paths and fingerprints depend on the order of recording.
#ifndef TESSERA_CORE_OPS_OPS_H_
#define TESSERA_CORE_OPS_OPS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// --- Elementwise ---------------------------------------------------------------------------------
Tensor Add(Tensor a, Tensor b);
Tensor Subtract(Tensor a, Tensor b);
Tensor Multiply(Tensor a, Tensor b);
Tensor Divide(Tensor a, Tensor b);
Tensor Maximum(Tensor a, Tensor b);
Tensor Minimum(Tensor a, Tensor b);
Tensor Exp(Tensor x);
Tensor Log(Tensor x);
Tensor Sqrt(Tensor x);
Tensor Rsqrt(Tensor x);
Tensor Reciprocal(Tensor x);
Tensor Negate(Tensor x);
Tensor Square(Tensor x);
Tensor Tanh(Tensor x);
Tensor Sigmoid(Tensor x);
Tensor Relu(Tensor x);
enum class GeluKind { kErf, kTanh };
Tensor Gelu(Tensor x, GeluKind kind);
// condition (u8) != 0 ? a : b
Tensor Select(Tensor condition, Tensor a, Tensor b);
Tensor Cast(Tensor x, DType dtype);
// x * factor, and x + term.
Tensor Scale(Tensor x, double factor);
Tensor AddConstant(Tensor x, double term);

// Sets each element to zero with the given probability, and multiplies the others by 1 / (1 -
// probability). The graph's inputs "seed" and "step" (i64 scalars) are declared on first use. No
// two dropouts draw the same mask, because the draw is keyed by the operator's path.
Tensor Dropout(Tensor x, double probability);

// --- Views ---------------------------------------------------------------------------------------
// Returns the elements of `x` in row-major order with another shape. One size may be -1; it is
// computed from the others.
Tensor Reshape(Tensor x, absl::Span<const int64_t> shape);
Tensor Transpose(Tensor x, absl::Span<const int64_t> permutation);
// Splits `x` into consecutive tensors with the given sizes along `axis`. The sizes must add up to
// the size of the dimension.
std::vector<Tensor> Split(Tensor x, int axis, absl::Span<const int64_t> sizes);
// Returns elements [start, start + size) along `axis`.
Tensor Slice(Tensor x, int axis, int64_t start, int64_t size);
// Broadcasts `x` to `shape`.
Tensor Expand(Tensor x, absl::Span<const int64_t> shape);
// Joins tensors along `axis`; their other dimensions must be equal.
Tensor Concat(absl::Span<const Tensor> inputs, int axis);
Tensor Copy(Tensor x);

// --- Products ------------------------------------------------------------------------------------
// a [..., M, K] (or [..., K, M] if transpose_a) times b [..., K, N] (or [..., N, K]).
Tensor MatMul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false);
// a [..., K, M] and b [..., K, N] -> [M, N]: the sum over all leading dimensions and K of a^T b.
Tensor ContractLeading(Tensor a, Tensor b);
// x [..., in], weight [out, in] and, if valid, bias [out] -> [..., out].
Tensor Linear(Tensor x, Tensor weight, Tensor bias = {});

// --- Pictures ------------------------------------------------------------------------------------
// Pictures are [batch, height, width, channels]. Pairs are along height and width. The global
// average over a picture is ReduceMean(x, {1, 2}), and Reshape flattens one.
struct ConvolutionOptions {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};   // zeros on both sides; less than the window
  std::array<int64_t, 2> dilation = {1, 1};  // from one element of the window to the next
  // The channels of x and of the result are split into as many groups, of consecutive channels; a
  // group of the result is computed from one of x.
  int64_t groups = 1;
};
// x [batch, height, width, in], weight [out, window height, window width, in / groups] -> [batch,
// height', width', out].
Tensor Convolution(Tensor x, Tensor weight, const ConvolutionOptions& options = {});
// The same with, if valid, a bias [out].
Tensor Conv2d(Tensor x, Tensor weight, Tensor bias = {}, const ConvolutionOptions& options = {});
struct PoolingOptions {
  std::array<int64_t, 2> window = {2, 2};
  std::array<int64_t, 2> stride = {2, 2};
  std::array<int64_t, 2> padding = {0, 0};  // less than the window
};
// The largest element of each window, which has at most 256; padding is not among them.
Tensor MaxPool(Tensor x, const PoolingOptions& options);
// The sum over each window, divided by all of its elements, with those in the padding, which are 0.
Tensor AveragePool(Tensor x, const PoolingOptions& options);
// Pads u8 pictures with zeros on each side, cuts a window of the original size from each at a
// random place and, if `flip`, exchanges left and right with probability 1/2. The draw is keyed
// like that of Dropout, and by the picture's index in the global batch. The padding is less than
// the height and the width.
Tensor RandomCropFlip(Tensor pictures, int64_t padding, bool flip);

// --- Rows ----------------------------------------------------------------------------------------
Tensor Softmax(Tensor x, int axis);
// Normalizes over the last dimension, which has C elements; weight and bias are [C].
Tensor LayerNorm(Tensor x, Tensor weight, Tensor bias, double eps);
struct BatchNormOptions {
  double eps = 1e-5;
  // The rows, which are x's first dimension, are cut into as many groups, each with statistics of
  // its own: of ceil(rows / groups) rows, where the last group may have fewer, but not none. So the
  // rows of a group are those of a rank if the batch is split over as many ranks.
  int64_t groups = 1;
};
struct NormalizedBatch {
  Tensor y;
  // [channels]: averages over the groups that have valid rows; the variance is unbiased. No
  // gradient flows through them. Invalid, like y, if an operand does not fit.
  Tensor mean, variance;
};
// Normalizes x [rows, ..., channels] by the mean and variance of each channel, over the valid rows
// of each group; weight and bias are [channels]. Rows whose element of `valid` [rows] is 0 count in
// no statistic. All rows count if `valid` is an invalid handle.
NormalizedBatch BatchNorm(Tensor x, Tensor weight, Tensor bias, Tensor valid = {},
                          const BatchNormOptions& options = {});
// Normalizes by a given mean and variance [channels], f32 if x has 16 bits, as evaluation does.
Tensor BatchNormWith(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor variance,
                     double eps = 1e-5);
// The running mean and variance of batch norm, states of the role kRunningStatistic, both
// [channels].
struct RunningMoments {
  Tensor mean, variance;
};
// Declares `running_mean` (initially 0) and `running_variance` (1) in the current scope.
RunningMoments DeclareRunningMoments(Graph& graph, int64_t channels);
struct RunningBatchNormOptions {
  BatchNormOptions batch;
  // The weight of a step in the running values: running = (1 - momentum) * running + momentum *
  // that of the batch (NormalizedBatch), once in each step.
  double momentum = 0.1;
};
// Batch norm in training: normalizes by the statistics of the batch, and sets the updated values of
// `running`, the input values of states. Evaluation is BatchNormWith the running values.
Tensor BatchNormUpdating(Tensor x, Tensor weight, Tensor bias, const RunningMoments& running,
                         Tensor valid = {}, const RunningBatchNormOptions& options = {});
Tensor ReduceSum(Tensor x, absl::Span<const int64_t> axes, bool keep_dims = false);
Tensor ReduceMax(Tensor x, absl::Span<const int64_t> axes, bool keep_dims = false);
Tensor ReduceMean(Tensor x, absl::Span<const int64_t> axes, bool keep_dims = false);
Tensor SumSquares(Tensor x);
// table [V, C], ids i32 [...] -> [..., C]
Tensor Embedding(Tensor table, Tensor ids);

// --- Attention -----------------------------------------------------------------------------------
// q, k, v [batch, seq, heads, head_dim] -> [batch, seq, heads, head_dim]; scale 1 / sqrt(head_dim).
Tensor Attention(Tensor q, Tensor k, Tensor v, bool causal);
// Attention of one new token over the cached keys and values; see docs/operators.md.
struct DecodedAttention {
  Tensor output, k_cache, v_cache;
};
DecodedAttention AttentionDecode(Tensor q, Tensor k, Tensor v, Tensor k_cache, Tensor v_cache,
                                 Tensor position);
// position i64 scalar -> u8 of a shape: 1 in row `position` along dimension 0, and, if `up_to`, in
// all rows before it, else 0.
Tensor RowMask(Tensor position, const Shape& shape, bool up_to);

// --- Losses --------------------------------------------------------------------------------------
// The label of targets that are not counted.
inline constexpr int64_t kIgnoreIndex = -100;
// Returns an f32 mask of the labels' shape: 1 for labels other than `ignore_index`, else 0.
Tensor ValidMask(Tensor labels, int64_t ignore_index = kIgnoreIndex);
// x [..., C], weight [V, C], targets i32 [...] -> for each row, the log-sum-exp of its logits and
// the logit of its target, both [...].
struct RowLogits {
  Tensor lse, target_logit;
};
RowLogits LinearLogSumExp(Tensor x, Tensor weight, Tensor targets);
// The same of given logits [..., V]. With label smoothing s, target_logit is 1 - s times the logit
// of the target plus s times the mean of all logits of the row.
RowLogits LogSumExp(Tensor logits, Tensor targets, double label_smoothing = 0);
struct MeanLoss {
  Tensor mean;   // a scalar
  Tensor valid;  // has the shape of targets: 1 for targets that are counted, else 0
  Tensor each;   // of each target, also of those that are not counted; may be an invalid handle
};
// Returns the mean cross-entropy over the valid targets of the global batch. Targets that equal
// kIgnoreIndex are not counted; if none is counted, the loss is 0.
MeanLoss LinearCrossEntropy(Tensor x, Tensor weight, Tensor targets);
struct CrossEntropyOptions {
  // The share of a target's probability, from 0 to less than 1, that is spread evenly over all
  // classes: a row's loss is (1 - label_smoothing) * -log p(target) + label_smoothing * the mean of
  // -log p over all classes.
  double label_smoothing = 0;
};
// The same of given logits [..., V]. A vocabulary of many thousands of words needs less memory with
// LinearCrossEntropy, which does not keep logits.
MeanLoss CrossEntropy(Tensor logits, Tensor targets, const CrossEntropyOptions& options = {});

// logits [..., V], targets i32 [...] -> for each row, 1 if the target is among the k largest
// logits, else 0. Of equal logits, the first ones count as larger.
Tensor TopKCorrect(Tensor logits, Tensor targets, int64_t k);
// x [..., V] -> the positions of the k largest elements of each row, the largest first, i32 [...,
// k]. Of equal elements, the first ones count as larger. So a row is correct by TopKCorrect, with k
// below V, if and only if its target is among its positions. The position of a NaN is -1.
Tensor TopK(Tensor x, int64_t k);

// --- Initial values, updates ---------------------------------------------------------------------
// Returns a tensor of `type` whose elements are all `value`.
Tensor Fill(Graph& graph, const TensorType& type, double value);
// Returns a tensor of `type` (f32 or a 16-bit float) of independent normal numbers. The draw is
// keyed by `random_path`, usually the path of the parameter that it initializes, and by the graph's
// input "seed" (an i64 scalar, declared on first use): calls with equal arguments give the same
// numbers for the same seed, whichever ranks draw them.
Tensor RandomNormal(Graph& graph, const TensorType& type, double mean, double stddev,
                    absl::string_view random_path);
// Returns a u8 scalar: 1 if all elements of all values are finite, else 0.
Tensor AllFinite(absl::Span<const Tensor> values);

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
};
struct SgdResult {
  Tensor parameter, momentum;  // momentum is invalid if options.momentum is 0
};
// `momentum` is not read if options.momentum is 0. lr and scale are scalars of the parameter's
// dtype. If `predicate` is 0, the new values equal the old ones.
SgdResult SgdUpdate(Tensor parameter, Tensor gradient, Tensor momentum, Tensor lr, Tensor scale,
                    Tensor predicate, const SgdOptions& options);

struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};
struct AdamwResult {
  Tensor parameter, m, v;
};
// `step` is an i64 scalar and counts from 1.
AdamwResult AdamwUpdate(Tensor parameter, Tensor gradient, Tensor m, Tensor v, Tensor lr,
                        Tensor scale, Tensor step, Tensor predicate, const AdamwOptions& options);

// --- Gradients -----------------------------------------------------------------------------------
// Calls AppendGradients (core/graph/autograd.h) with the operators of this folder.
absl::StatusOr<std::vector<Tensor>> RecordGradients(Graph& graph, Tensor loss,
                                                    absl::Span<const Tensor> targets);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_OPS_H_
