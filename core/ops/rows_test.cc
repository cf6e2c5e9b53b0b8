// Tests matrix products, operators on rows, attention, and linear with cross-entropy.
#include <gtest/gtest.h>

#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

Attributes Transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }
const Attributes kCausal = {{"causal", true}, {"scale", 0.5}};
const Attributes kFull = {{"causal", false}, {"scale", 0.5}};

TEST(MatMul, Shapes) {
  EXPECT_EQ(Inferred(Use("matmul", {F32({2, 3}), F32({3, 4})}, Transposed(false, false))),
            "f32[2, 4]");
  EXPECT_EQ(Inferred(Use("matmul", {F32({3, 2}), F32({4, 3})}, Transposed(true, true))),
            "f32[2, 4]");
  EXPECT_EQ(Inferred(Use("matmul", {F32({5, 2, 3}), F32({5, 4, 3})}, Transposed(false, true))),
            "f32[5, 2, 4]");
  EXPECT_EQ(Inferred(Use("matmul", {F32({5, 6, 2, 3}), F32({3, 4})}, Transposed(false, false))),
            "f32[5, 6, 2, 4]");
}

TEST(MatMul, Errors) {
  EXPECT_EQ(
      Inferred(Use("matmul", {F32({2, 3}), F32({4, 5})}, Transposed(false, false))),
      "input 1 (b) is f32[4, 5]; it must be of size 3 in dimension 0, as a is in dimension 1: "
      "f32[2, 3]");
  EXPECT_EQ(
      Inferred(Use("matmul", {F32({5, 2, 3}), F32({1, 3, 4})}, Transposed(false, false))),
      "input 1 (b) is f32[1, 3, 4]; it must be of rank 2, or have the leading dimensions of a, "
      "f32[5, 2, 3]");
  EXPECT_EQ(
      Inferred(Use("matmul", {F32({2, 3}), F32({5, 3, 4})}, Transposed(false, false))),
      "input 1 (b) is f32[5, 3, 4]; it must be of rank 2, or have the leading dimensions of a, "
      "f32[2, 3]");
  EXPECT_EQ(Inferred(Use("matmul", {F32({5, 2, 3}), F32({2, 4})}, Transposed(true, false))),
            "attribute transpose_a=true must be false where b is one matrix and a has more "
            "dimensions");
  EXPECT_EQ(Inferred(Use("matmul", {F32({3}), F32({3, 4})}, Transposed(false, false))),
            "input 0 (a) is f32[3]; it must be of rank 2 or more");
}

TEST(MatMul, SumsOverLeadingDimensions) {
  const auto contract = [](bool a, bool b) {
    Attributes attributes = Transposed(a, b);
    attributes.Set("contract_leading", true);
    return attributes;
  };
  const std::vector<TensorType> inputs = {F32({8, 16, 32}), F32({8, 16, 64})};
  const Use use("matmul", inputs, contract(true, false));
  EXPECT_EQ(Inferred(use), "f32[32, 64]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0), S(0) -> P\n"
            "S(2), B -> S(0)\n"
            "B, S(2) -> S(1)\n"
            "S(1), S(1) -> P\n"
            "P, B -> P\n"
            "B, P -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(use.kind->Cost(use.types()).flops, 2.0 * 8 * 16 * 32 * 64);
  EXPECT_EQ(Inferred(Use("matmul", inputs, contract(true, true))),
            "attribute contract_leading=true must be false unless a alone is transposed");
}

TEST(MatMul, Signatures) {
  EXPECT_EQ(SignaturesOf(Use("matmul", {F32({8, 16, 32}), F32({64, 32})}, Transposed(false, true))),
            "S(0), B -> S(0)\n"
            "S(1), B -> S(1)\n"
            "B, S(0) -> S(2)\n"
            "S(2), S(1) -> P\n"
            "P, B -> P\n"
            "B, P -> P\n");
  EXPECT_EQ(
      SignaturesOf(Use("matmul", {F32({8, 32, 16}), F32({8, 32, 64})}, Transposed(true, false))),
      "S(0), S(0) -> S(0)\n"
      "S(2), B -> S(1)\n"
      "B, S(2) -> S(2)\n"
      "S(1), S(1) -> P\n"
      "P, B -> P\n"
      "B, P -> P\n");
  for (bool a : {false, true}) {
    for (bool b : {false, true}) {
      EXPECT_EQ(SignatureThatDoesNotFit(
                    Use("matmul", {F32({4, 5, 5}), F32({4, 5, 5})}, Transposed(a, b))),
                "");
    }
  }
  EXPECT_EQ(SignatureThatDoesNotFit(
                Use("matmul", {F32({2, 3, 4, 5}), F32({5, 6})}, Transposed(false, false))),
            "");
}

TEST(MatMul, Cost) {
  const Use use("matmul", {F32({2, 4, 5}), F32({6, 5})}, Transposed(false, true));
  const OpCost cost = use.kind->Cost(use.types());
  EXPECT_EQ(cost.flops, 2.0 * 2 * 4 * 5 * 6);
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 4 * 5 + 6 * 5 + 2 * 4 * 6));
}

TEST(Softmax, DoesNotSplitItsAxis) {
  const Attributes axis = {{"axis", int64_t{1}}};
  const Use use("softmax", {F32({4, 5, 6})}, axis);
  EXPECT_EQ(SignaturesOf(use), "S(0) -> S(0)\nS(2) -> S(2)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(SignaturesOf(Use("softmax_grad", {F32({4, 5}), F32({4, 5})}, axis)),
            "S(0), S(0) -> S(0)\nP, B -> P\n");
  EXPECT_EQ(Inferred(Use("softmax", {F32({4})}, axis)),
            "attribute axis=1 must be at least 0 and less than 1");
}

TEST(LayerNorm, ShapesAndSignatures) {
  const Use use("layer_norm", {F32({4, 5, 6}), F32({6}), F32({6})}, {{"eps", 1e-5}});
  EXPECT_EQ(Inferred(use), "f32[4, 5, 6], f32[4, 5], f32[4, 5]");
  EXPECT_EQ(SignaturesOf(use), "S(0), B, B -> S(0), S(0), S(0)\nS(1), B, B -> S(1), S(1), S(1)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  const Use gradient("layer_norm_grad", {F32({4, 6}), F32({4, 6}), F32({6}), F32({4}), F32({4})});
  EXPECT_EQ(Inferred(gradient), "f32[4, 6], f32[6], f32[6]");
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), B, S(0), S(0) -> S(0), P, P\nP, B, B, B, B -> P, P, P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
  EXPECT_EQ(Inferred(Use("layer_norm", {F32({4, 6}), F32({5}), F32({6})}, {{"eps", 1e-5}})),
            "input 1 (weight) is f32[5]; it must be f32[6]");
}

Attributes Reduced(std::vector<int64_t> axes, bool keep_dims) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

TEST(Reduce, ShapesAndSignatures) {
  const Use use("reduce_sum", {F32({4, 5, 6})}, Reduced({1}, false));
  EXPECT_EQ(Inferred(use), "f32[4, 6]");
  EXPECT_EQ(SignaturesOf(use), "S(0) -> S(0)\nS(1) -> P\nS(2) -> S(1)\nP -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  const Use kept("reduce_max", {F32({4, 5, 6})}, Reduced({0, 2}, true));
  EXPECT_EQ(Inferred(kept), "f32[1, 5, 1]");
  EXPECT_EQ(SignaturesOf(kept), "S(0) -> P(max)\nS(1) -> S(1)\nS(2) -> P(max)\nP(max) -> P(max)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(kept), "");
  const Use gradient("reduce_max_grad", {F32({4, 6}), F32({4, 5, 6}), F32({4, 6})},
                     Reduced({1}, false));
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), S(0) -> S(0)\nS(1), S(2), S(1) -> S(2)\nP, B, B -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{}, {1, 0}, {1, 1}, {2}, {-1}}) {
    EXPECT_EQ(Inferred(Use("reduce_sum", {F32({2, 3})}, Reduced(axes, false))),
              "attribute axes=" + ShapeToString(axes) +
                  " must be one or more dimensions of [2, 3], each once, in rising order");
  }
  EXPECT_EQ(SignaturesOf(Use("sum_squares", {F32({4, 5})})), "S(0) -> P\nS(1) -> P\n");
}

TEST(Embedding, ShapesAndSignatures) {
  const Use use("embedding", {F32({50, 8}), I32({4, 5})});
  EXPECT_EQ(Inferred(use), "f32[4, 5, 8]");
  EXPECT_EQ(SignaturesOf(use),
            "B, S(0) -> S(0)\nB, S(1) -> S(1)\nS(1), B -> S(2)\nP, B -> P\nS(0), B -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  const Use gradient("embedding_grad", {F32({4, 5, 8}), I32({4, 5})}, {{"rows", int64_t{50}}});
  EXPECT_EQ(Inferred(gradient), "f32[50, 8]");
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0) -> P\nS(1), S(1) -> P\nS(2), B -> S(1)\nP, B -> P\nB, B -> S(0)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
  EXPECT_EQ(Inferred(Use("embedding", {F32({50, 8}), I64({4})})),
            "input 1 (ids) is i64[4]; it must be i32");
}

// Equal parts of a table are equal work, wherever they begin.
TEST(Embedding, APartHasItsOwnRows) {
  const Use use("embedding_grad", {F32({4, 8}), I32({4})}, {{"rows", int64_t{50}}});
  const std::vector<TensorType> part = {F32({20, 8})};
  const std::vector<Region> region = {{{30, 0}, {50, 8}}};
  const Attributes local =
      use.kind->LocalAttributes(use.attributes, {use.inputs, part, {}, region});
  EXPECT_EQ(local.ToString(), "{rows=20}");
}

TEST(Attention, ShapesAndSignatures) {
  const TensorType q = F32({2, 5, 3, 4}), k = F32({2, 7, 3, 4});
  const Use causal("attention", {q, q, q}, kCausal);
  EXPECT_EQ(Inferred(causal), "f32[2, 5, 3, 4], f32[2, 3, 5]");
  EXPECT_EQ(SignaturesOf(causal),
            "S(0), S(0), S(0) -> S(0), S(0)\n"
            "S(2), S(2), S(2) -> S(2), S(1)\n");
  const Use full("attention", {q, k, k}, kFull);
  EXPECT_EQ(Inferred(full), "f32[2, 5, 3, 4], f32[2, 3, 5]");
  EXPECT_EQ(SignaturesOf(full),
            "S(0), S(0), S(0) -> S(0), S(0)\n"
            "S(2), S(2), S(2) -> S(2), S(1)\n"
            "S(1), B, B -> S(1), S(2)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(causal) + SignatureThatDoesNotFit(full), "");
  const Use gradient("attention_grad", {q, q, k, k, q, F32({2, 3, 5})}, kFull);
  EXPECT_EQ(Inferred(gradient), "f32[2, 5, 3, 4], f32[2, 7, 3, 4], f32[2, 7, 3, 4]");
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), S(0), S(0), S(0), S(0) -> S(0), S(0), S(0)\n"
            "S(2), S(2), S(2), S(2), S(2), S(1) -> S(2), S(2), S(2)\n"
            "S(1), S(1), B, B, S(1), S(2) -> S(1), P, P\n"
            "B, B, S(1), S(1), B, B -> P, S(1), S(1)\n"
            "P, B, B, B, B, B -> P, P, P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
  EXPECT_EQ(Inferred(Use("attention", {q, k, k}, kCausal)),
            "input 1 (k) is f32[2, 7, 3, 4]; it must be as long as q in dimension 1, 5, where the "
            "attention is causal");
  EXPECT_EQ(Inferred(Use("attention", {q, F32({2, 5, 1, 4}), q}, kFull)),
            "input 1 (k) is f32[2, 5, 1, 4]; it must be f32[2, 5, 3, 4] with any size in dimension "
            "1, to fit q");
}

TEST(Attention, CostsCountWhatACausalMaskLeaves) {
  const TensorType q = F32({2, 5, 3, 4});
  const Use causal("attention", {q, q, q}, kCausal);
  const double product = 2.0 * 2 * 3 * 4 * 15;
  EXPECT_EQ(causal.kind->Cost(causal.types()).flops, 2 * product);
  const Use gradient("attention_grad", {q, q, q, q, q, F32({2, 3, 5})}, kCausal);
  const OpCost cost = gradient.kind->Cost(gradient.types());
  EXPECT_EQ(cost.flops - cost.recomputed_flops, 4 * product);
  EXPECT_EQ(cost.recomputed_flops, product);
  const Use full("attention", {q, q, q}, kFull);
  EXPECT_EQ(full.kind->Cost(full.types()).flops, 2.0 * 2 * 2 * 3 * 4 * 25);
}

TEST(AttentionDecode, ShapesAndSignatures) {
  const TensorType token = F32({2, 1, 3, 4}), cache = F32({2, 9, 3, 4});
  const Use use("attention_decode", {token, token, token, cache, cache, I64({})}, {{"scale", 0.5}});
  EXPECT_EQ(Inferred(use), "f32[2, 1, 3, 4], f32[2, 9, 3, 4], f32[2, 9, 3, 4]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0), S(0), S(0), S(0), S(0), B -> S(0), S(0), S(0)\n"
            "S(2), S(2), S(2), S(2), S(2), B -> S(2), S(2), S(2)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(Inferred(Use("attention_decode", {cache, cache, cache, cache, cache, I64({})},
                         {{"scale", 0.5}})),
            "input 0 (q) is f32[2, 9, 3, 4]; it must be of shape [B, 1, H, D]");
}

TEST(LinearLogSumExp, ShapesSignaturesAndCosts) {
  const TensorType x = F32({4, 5, 6}), w = F32({50, 6}), row = F32({4, 5});
  const Use use("linear_log_sum_exp", {x, w, I32({4, 5})});
  EXPECT_EQ(Inferred(use), "f32[4, 5], f32[4, 5]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0), B, S(0) -> S(0), S(0)\nS(1), B, S(1) -> S(1), S(1)\nB, S(0), B -> P(lse), P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  const double product = 2.0 * 20 * 6 * 50;
  EXPECT_EQ(use.kind->Cost(use.types()).flops, product);
  const Use gradient("linear_log_sum_exp_grad", {row, row, x, w, I32({4, 5}), row});
  EXPECT_EQ(Inferred(gradient), "f32[4, 5, 6], f32[50, 6]");
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), S(0), B, S(0), S(0) -> S(0), P\n"
            "S(1), S(1), S(1), B, S(1), S(1) -> S(1), P\n"
            "B, B, B, S(0), B, B -> P, S(0)\n"
            "P, P, B, B, B, B -> P, P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
  EXPECT_EQ(gradient.kind->Cost(gradient.types()).flops, 3 * product);
  EXPECT_EQ(gradient.kind->Cost(gradient.types()).recomputed_flops, product);
  EXPECT_EQ(Inferred(Use("linear_log_sum_exp", {x, F32({50, 7}), I32({4, 5})})),
            "input 1 (w) is f32[50, 7]; it must be of shape [V, 6], to fit x, f32[4, 5, 6]");
  EXPECT_EQ(Inferred(Use("linear_log_sum_exp", {x, w, I32({4})})),
            "input 2 (targets) is i32[4]; it must be i32[4, 5]");
}

// Logits are split as x or w is, and are f32 beside bf16.
TEST(LinearLogSumExp, KeptLogitsAreAnOperand) {
  const Attributes keeps = {{"keep_logits", true}};
  const TensorType x = F32({4, 5, 6}), w = F32({50, 6}), row = F32({4, 5});
  const TensorType logits = F32({4, 5, 50});
  const Use use("linear_log_sum_exp", {x, w, I32({4, 5})}, keeps);
  EXPECT_EQ(Inferred(use), "f32[4, 5], f32[4, 5], f32[4, 5, 50]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0), B, S(0) -> S(0), S(0), S(0)\n"
            "S(1), B, S(1) -> S(1), S(1), S(1)\n"
            "B, S(0), B -> P(lse), P, S(2)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  const double product = 2.0 * 20 * 6 * 50;
  const double bytes = 4.0 * (20 * 6 + 50 * 6 + 20 + 2 * 20 + 20 * 50);
  EXPECT_EQ(use.kind->Cost(use.types()).flops, product);
  EXPECT_EQ(use.kind->Cost(use.types()).bytes, bytes);
  const Use gradient("linear_log_sum_exp_grad", {row, row, x, w, I32({4, 5}), row, logits}, keeps);
  EXPECT_EQ(Inferred(gradient), "f32[4, 5, 6], f32[50, 6]");
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), S(0), B, S(0), S(0), S(0) -> S(0), P\n"
            "S(1), S(1), S(1), B, S(1), S(1), S(1) -> S(1), P\n"
            "B, B, B, S(0), B, B, S(2) -> P, S(0)\n"
            "P, P, B, B, B, B, B -> P, P\n"
            "B, B, S(2), S(1), B, B, B -> S(2), S(1)\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
  EXPECT_EQ(gradient.kind->Cost(gradient.types()).flops, 2 * product);
  EXPECT_EQ(gradient.kind->Cost(gradient.types()).recomputed_flops, 0);
  const TensorType half = {DType::kBF16, {4, 6}}, half_w = {DType::kBF16, {50, 6}};
  EXPECT_EQ(Inferred(Use("linear_log_sum_exp", {half, half_w, I32({4})}, keeps)),
            "f32[4], f32[4], f32[4, 50]");
  EXPECT_EQ(Inferred(Use("linear_log_sum_exp_grad", {row, row, x, w, I32({4, 5}), row, x}, keeps)),
            "input 6 (logits) is f32[4, 5, 6]; it must be f32[4, 5, 50]");
  EXPECT_EQ(Inferred(Use("linear_log_sum_exp_grad", {row, row, x, w, I32({4, 5}), row}, keeps)),
            "6 inputs; it takes 7: dlse, dtarget, x, w, targets, lse, logits");
  EXPECT_EQ(Inferred(Use("linear_log_sum_exp", {x, w, I32({4, 5})}, {{"keep_logits", 1}})),
            "attribute keep_logits=1 must be true or false");
}

TEST(LogSumExp, ShapesSignaturesAndCosts) {
  const Attributes smoothing = {{"label_smoothing", 0.1}};
  const TensorType logits = F32({4, 5, 50}), row = F32({4, 5});
  const Use use("log_sum_exp", {logits, I32({4, 5})}, smoothing);
  EXPECT_EQ(Inferred(use), "f32[4, 5], f32[4, 5]");
  EXPECT_EQ(SignaturesOf(use),
            "S(0), S(0) -> S(0), S(0)\nS(1), S(1) -> S(1), S(1)\nS(2), B -> P(lse), P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  EXPECT_EQ(use.kind->Cost(use.types()).bytes, 4.0 * (4 * 5 * 50 + 4 * 5 + 2 * 4 * 5));
  const Use gradient("log_sum_exp_grad", {row, row, logits, I32({4, 5}), row}, smoothing);
  EXPECT_EQ(Inferred(gradient), "f32[4, 5, 50]");
  EXPECT_EQ(SignaturesOf(gradient),
            "S(0), S(0), S(0), S(0), S(0) -> S(0)\n"
            "S(1), S(1), S(1), S(1), S(1) -> S(1)\n"
            "B, B, S(2), B, B -> S(2)\n"
            "P, P, B, B, B -> P\n");
  EXPECT_EQ(SignatureThatDoesNotFit(gradient), "");
}

// Rows are f32 beside logits of 16 bits.
TEST(LogSumExp, RowsAreStatistics) {
  const Attributes smoothing = {{"label_smoothing", 0.0}};
  const TensorType half = {DType::kBF16, {4, 50}};
  EXPECT_EQ(Inferred(Use("log_sum_exp", {half, I32({4})}, smoothing)), "f32[4], f32[4]");
  EXPECT_EQ(
      Inferred(Use("log_sum_exp_grad", {F32({4}), F32({4}), half, I32({4}), F32({4})}, smoothing)),
      "bf16[4, 50]");
}

TEST(LogSumExp, Errors) {
  EXPECT_EQ(Inferred(Use("log_sum_exp", {F32({4, 5}), I32({4, 1})}, {{"label_smoothing", 0.0}})),
            "input 1 (targets) is i32[4, 1]; it must be i32[4]");
  EXPECT_EQ(Inferred(Use("log_sum_exp", {F32({4, 5}), I32({4})}, {{"label_smoothing", 1.0}})),
            "attribute label_smoothing=1.0 must be at least 0 and less than 1");
  EXPECT_EQ(Inferred(Use("log_sum_exp", {F32({4, 5}), I32({4})})),
            "attribute label_smoothing is missing; it must be a floating number");
  Graph graph("test");
  const Tensor logits = graph.Input("logits", F32({4, 5}));
  const Tensor targets = graph.Input("targets", I32({3}));
  EXPECT_FALSE(CrossEntropy(logits, targets).mean.valid());
  EXPECT_EQ(MessageOf(graph.status()),
            "log_sum_exp (log_sum_exp): input 1 (targets) is i32[3]; it must be i32[4]");
}

}  // namespace
}  // namespace tessera
