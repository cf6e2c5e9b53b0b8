// The functions with which a model is recorded. Each records one or a few operators
// (docs/operators.md says what each computes) on Tensor handles and returns the result's handle. An
// operand that does not fit is an error of the Graph (Graph::status), and the result is invalid.
//
// Broadcasting is numpy's. Thread safety: as the Graph's, one thread records.
//
// Record at most one operator in an argument list: C++ leaves the order of arguments to the
// compiler, and paths and fingerprints follow the order of recording.
#ifndef TESSERA_CORE_OPS_OPS_H_
#define TESSERA_CORE_OPS_OPS_H_

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
// x * factor and x + term, with a constant.
Tensor Scale(Tensor x, double factor);
Tensor AddConstant(Tensor x, double term);

// Zeroes elements with the given probability and scales the others by 1 / (1 - probability). The
// graph's inputs "seed" and "step" (i64 scalars) are declared on first use. Two dropouts never draw
// the same mask: the draw is keyed by the operator's path.
Tensor Dropout(Tensor x, double probability);

// --- Views ---------------------------------------------------------------------------------------
// One size may be -1: it follows from the others.
Tensor Reshape(Tensor x, absl::Span<const int64_t> shape);
Tensor Transpose(Tensor x, absl::Span<const int64_t> permutation);
// Consecutive parts along `axis` of the given sizes.
std::vector<Tensor> Split(Tensor x, int axis, absl::Span<const int64_t> sizes);
// Elements [start, start + size) along `axis`.
Tensor Slice(Tensor x, int axis, int64_t start, int64_t size);
Tensor Expand(Tensor x, absl::Span<const int64_t> shape);
Tensor Concat(absl::Span<const Tensor> parts, int axis);
Tensor Copy(Tensor x);

// --- Products ------------------------------------------------------------------------------------
// a [..., M, K] (or [..., K, M] if transpose_a) times b [..., K, N] (or [..., N, K]).
Tensor MatMul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false);
// a [..., K, M] and b [..., K, N] -> [M, N]: the sum over all leading dimensions and K of a^T b.
Tensor ContractLeading(Tensor a, Tensor b);
// x [..., in] with weight [out, in] and, if valid, bias [out] gives [..., out].
Tensor Linear(Tensor x, Tensor weight, Tensor bias = {});

// --- Rows ----------------------------------------------------------------------------------------
Tensor Softmax(Tensor x, int axis);
// Over the last dimension; weight and bias are [C].
Tensor LayerNorm(Tensor x, Tensor weight, Tensor bias, double eps);
Tensor ReduceSum(Tensor x, absl::Span<const int64_t> axes, bool keep_dims = false);
Tensor ReduceMax(Tensor x, absl::Span<const int64_t> axes, bool keep_dims = false);
Tensor ReduceMean(Tensor x, absl::Span<const int64_t> axes, bool keep_dims = false);
Tensor SumSquares(Tensor x);
// table [V, C], ids i32 [...] -> [..., C]
Tensor Embedding(Tensor table, Tensor ids);

// --- Attention -----------------------------------------------------------------------------------
// q, k, v [batch, seq, heads, head_dim] -> [batch, seq, heads, head_dim]; scale 1 / sqrt(head_dim).
Tensor Attention(Tensor q, Tensor k, Tensor v, bool causal);
// One new token over the kept keys and values; see docs/operators.md.
struct DecodedAttention {
  Tensor output, k_cache, v_cache;
};
DecodedAttention AttentionDecode(Tensor q, Tensor k, Tensor v, Tensor k_cache, Tensor v_cache,
                                 Tensor position);

// --- Losses --------------------------------------------------------------------------------------
// The ignored label.
inline constexpr int64_t kIgnoreIndex = -100;
// 1 where a label counts, else 0, in f32.
Tensor ValidMask(Tensor labels, int64_t ignore_index = kIgnoreIndex);
// x [..., C], weight [V, C], targets i32 [...]: each row's log-sum-exp of logits and logit at its
// target, both [...].
struct RowLogits {
  Tensor lse, target_logit;
};
RowLogits LinearLogSumExp(Tensor x, Tensor weight, Tensor targets);
struct MeanLoss {
  Tensor mean;   // a scalar
  Tensor valid;  // of targets' shape: 1 where one counts in the mean, else 0
};
// The mean cross-entropy over the valid targets of the global batch. Targets that equal
// kIgnoreIndex do not count; with none that count the loss is 0.
MeanLoss LinearCrossEntropy(Tensor x, Tensor weight, Tensor targets);

// --- First values, updates -----------------------------------------------------------------------
Tensor Fill(Graph& graph, const TensorType& type, double value);
// Draws keyed by `random_path`: a parameter's own path.
Tensor RandomNormal(Graph& graph, const TensorType& type, double mean, double stddev,
                    absl::string_view random_path);
// u8 scalar: 1 if all elements of all of these are finite.
Tensor AllFinite(absl::Span<const Tensor> values);

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
};
struct SgdResult {
  Tensor parameter, momentum;  // momentum is invalid if the options have none
};
// `momentum` is not read if options.momentum is 0. lr and scale are scalars of the parameter's
// dtype; the new values equal the old ones where `predicate` is 0.
SgdResult SgdUpdate(Tensor parameter, Tensor gradient, Tensor momentum, Tensor lr, Tensor scale,
                    Tensor predicate, const SgdOptions& options);

struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
};
struct AdamwResult {
  Tensor parameter, m, v;
};
// `step` counts from 1 (i64 scalar).
AdamwResult AdamwUpdate(Tensor parameter, Tensor gradient, Tensor m, Tensor v, Tensor lr,
                        Tensor scale, Tensor step, Tensor predicate, const AdamwOptions& options);

// --- Gradients -----------------------------------------------------------------------------------
// AppendGradients (core/graph/autograd.h) with the operators of this folder.
absl::StatusOr<std::vector<Tensor>> RecordGradients(Graph& graph, Tensor loss,
                                                    absl::Span<const Tensor> targets);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_OPS_H_
