// Tests the shape rules, the signatures and the recorded gradient of batch norm.
#include <gtest/gtest.h>

#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

Attributes GroupRows(int64_t rows) { return {{"group_rows", rows}}; }

Use SumOf(const std::vector<TensorType>& inputs, int64_t group_rows, int64_t groups) {
  return Use("batch_norm_sum", inputs, {{"group_rows", group_rows}, {"groups", groups}});
}

TEST(BatchNorm, Shapes) {
  EXPECT_EQ(Inferred(SumOf({F32({8, 5, 6, 3})}, 4, 2)), "f32[2, 3], f32[2, 1]");
  EXPECT_EQ(Inferred(SumOf({{{DType::kBF16, {8, 3}}, F32({8})}}, 8, 1)), "f32[1, 3], f32[1, 1]");
  EXPECT_EQ(Inferred(Use("batch_norm_squares", {F32({8, 5, 3}), F32({2, 3})}, GroupRows(4))),
            "f32[2, 3]");
  EXPECT_EQ(Inferred(Use("batch_norm",
                         {{DType::kBF16, {8, 3}}, F32({1, 3}), F32({1, 3}), F32({3}), F32({3})},
                         GroupRows(8))),
            "bf16[8, 3]");
}

TEST(BatchNorm, Errors) {
  EXPECT_EQ(Inferred(SumOf({F32({8})}, 4, 2)),
            "input 0 (x) is f32[8]; it must be of rank 2 or more");
  EXPECT_EQ(Inferred(SumOf({F32({8, 3}), F32({7})}, 4, 2)),
            "input 1 (valid) is f32[7]; it must be f32[8]");
  EXPECT_EQ(Inferred(SumOf({F32({9, 3})}, 4, 2)),
            "attribute groups=2 must be 3 or more, as 9 rows are groups of 4");
  EXPECT_EQ(Inferred(Use("batch_norm_squares", {F32({9, 3}), F32({2, 3})}, GroupRows(4))),
            "input 1 (mean) is f32[2, 3]; it must be of 3 groups or more, as 9 rows are groups of "
            "4");
  EXPECT_EQ(Inferred(Use("batch_norm_squares", {F32({8, 3}), F32({3})}, GroupRows(4))),
            "input 1 (mean) is f32[3]; it must be of rank 2, [groups, channels]");
}

TEST(BatchNorm, Signatures) {
  // One group is never split into whole groups.
  EXPECT_EQ(SignaturesOf(SumOf({F32({8, 5, 3}), F32({8})}, 8, 1)),
            "S(0), S(0) -> P, P\n"
            "S(1), B -> P, P\n"
            "S(2), B -> S(1), B\n");
  EXPECT_EQ(SignaturesOf(SumOf({F32({8, 3}), F32({8})}, 2, 4)),
            "S(0, 2), S(0, 2) -> S(0), S(0)\n"
            "S(0), S(0) -> P, P\n"
            "S(1), B -> S(1), B\n");
  // A device's 4 of these rows are a part of each of the groups.
  EXPECT_EQ(SignaturesOf(SumOf({F32({4, 3}), F32({4})}, 2, 4)),
            "S(0), S(0) -> P, P\n"
            "S(1), B -> S(1), B\n");
  EXPECT_EQ(SignaturesOf(Use(
                "batch_norm",
                {F32({8, 3}), F32({4, 3}), F32({4, 3}), F32({3}), F32({3}), F32({4, 1}), F32({8})},
                GroupRows(2))),
            "S(0, 2), S(0), S(0), B, B, S(0), S(0, 2) -> S(0, 2)\n"
            "S(0), B, B, B, B, B, S(0) -> S(0)\n"
            "S(1), S(1), S(1), S(0), S(0), B, B -> S(1)\n");
  for (const Use& use :
       {SumOf({F32({7, 2, 3}), F32({7})}, 3, 3), SumOf({F32({6, 3})}, 1, 6),
        Use("batch_norm_squares", {F32({7, 2, 3}), F32({3, 3}), F32({7})}, GroupRows(3)),
        Use("batch_norm", {F32({7, 3}), F32({3, 3}), F32({3, 3}), F32({3}), F32({3})},
            GroupRows(3)),
        Use("batch_norm_grad_sums", {F32({7, 3}), F32({7, 3}), F32({3, 3}), F32({3, 3})},
            GroupRows(3)),
        Use("batch_norm_grad",
            {F32({7, 3}), F32({3, 3}), F32({3}), F32({7, 3}), F32({3, 3}), F32({3, 3}), F32({3, 3}),
             F32({3, 1}), F32({7})},
            GroupRows(3)),
        Use("batch_norm_grad", {F32({7, 3}), F32({3, 3}), F32({3})}, GroupRows(3))}) {
    EXPECT_EQ(SignatureThatDoesNotFit(use), "");
  }
}

TEST(BatchNorm, MicroBatchesMayNotCutGroups) {
  const auto check = [](int64_t rows, int64_t group_rows, int64_t groups, int64_t micro_batches) {
    const Use use = SumOf({F32({rows, 3})}, group_rows, groups);
    return MessageOf(use.kind->CheckMicroBatches(use.types(), micro_batches));
  };
  EXPECT_EQ(check(8, 2, 4, 4), "");
  EXPECT_EQ(check(8, 2, 4, 2), "");
  EXPECT_EQ(check(8, 8, 1, 2),
            "2 micro-batches would cut its groups of rows (1 of 8); use a multiple of 2 groups, of "
            "equal size, or 1 micro-batch");
  EXPECT_NE(check(8, 1, 8, 3), "");
  EXPECT_NE(check(10, 3, 4, 2), "");  // groups of 3, 3, 3 and 1 row
}

std::string GradientOps(Graph& graph, Tensor y, const std::vector<Tensor>& targets) {
  const auto gradients = RecordGradients(graph, ReduceSum(y, {0, 1}), targets);
  if (!gradients.ok()) return MessageOf(gradients.status());
  const std::string text = BackwardOps(graph);
  const size_t of_sum = text.find("expand(");
  return text.substr(text.find('\n', of_sum) + 1);
}

TEST(BatchNorm, Gradients) {
  Graph graph("test");
  const Tensor x = graph.DeclareState("x", F32({8, 3}), Role::kParameter, {});
  const Tensor weight = graph.DeclareState("weight", F32({3}), Role::kParameter, {});
  const Tensor bias = graph.DeclareState("bias", F32({3}), Role::kParameter, {});
  const Tensor valid = graph.Input("valid", F32({8}));
  EXPECT_EQ(GradientOps(graph, BatchNorm(x, weight, bias, valid, {1e-5, 2}).y, {x, weight, bias}),
            "batch_norm_grad_sums(f32[8, 3], f32[8, 3], f32[2, 3], f32[2, 3]) -> f32[2, 3], f32[2, "
            "3]\n"
            "reduce_sum(f32[2, 3]) -> f32[3]\n"
            "reduce_sum(f32[2, 3]) -> f32[3]\n"
            "batch_norm_grad(f32[8, 3], f32[2, 3], f32[3], f32[8, 3], f32[2, 3], f32[2, 3], f32[2, "
            "3], f32[2, 1], f32[8]) -> f32[8, 3]\n");
}

TEST(BatchNorm, NoGradientFlowsThroughGivenStatistics) {
  Graph graph("test");
  const Tensor x = graph.DeclareState("x", F32({8, 3}), Role::kParameter, {});
  const Tensor c = graph.Input("c", F32({3}));
  EXPECT_EQ(GradientOps(graph, BatchNormWith(x, c, c, c, c), {x}),
            "batch_norm_grad(f32[8, 3], f32[1, 3], f32[3]) -> f32[8, 3]\n");
}

}  // namespace
}  // namespace tessera
