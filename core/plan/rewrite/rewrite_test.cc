#include "core/plan/rewrite/rewrite.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/plan/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Records one block, -(x w)^2, and the gradient of the sum of its squares.
Graph OneBlock() {
  Graph graph("train");
  Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  Tensor w;
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    w = graph.Parameter("w", {3, 2}, Initializer::Constant(1));
    x = Negate(Square(MatMul(x, w)));
  }
  auto gradients = RecordGradients(graph, ReduceSum(Square(x), {0, 1}), {w});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());
  return graph;
}

std::string Error(const PlanPart& part) {
  absl::Status status = CheckPlanPart(OneBlock(), part);
  if (status.ok()) status = RewriteGraph(OneBlock(), part).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const absl::string_view message = status.message();
  return {message.data(), message.size()};
}

TEST(RewriteTest, AnOpenPartChangesNothing) {
  const auto result = RewriteGraph(OneBlock(), PlanPart());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ToString(), OneBlock().ToString());
}

// The copies of a micro-batch have an order edge to its gradient.
TEST(RewriteTest, RecomputesWithinEachMicroBatch) {
  PlanPart part;
  part.set_graph("train");
  part.set_fingerprint(OneBlock().Fingerprint());
  part.set_micro_batches(2);
  part.add_recompute("blocks.0");
  const auto result = RewriteGraph(OneBlock(), part);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->ToString(), R"(graph train
input %x: f32[4, 3] batch_dim=0
parameter %blocks.0.w: f32[3, 2] {constant=1.0}
%reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%square.backward.fill: f32[] = fill() {dtype=f32, shape=[], value=2.0}
%blocks.0.square.backward.fill: f32[] = fill() {dtype=f32, shape=[], value=2.0}
%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%blocks.0.matmul@0: f32[2, 2] = matmul(%x@0, %blocks.0.w) {transpose_a=false, transpose_b=false}
%blocks.0.square@0: f32[2, 2] = square(%blocks.0.matmul@0)
%blocks.0.negate@0: f32[2, 2] = negate(%blocks.0.square@0)
%square@0: f32[2, 2] = square(%blocks.0.negate@0)
%reduce_sum@0: f32[] = reduce_sum(%square@0) {axes=[0, 1], keep_dims=false}
%square.grad@0: f32[2, 2] = expand(%reduce_sum.grad) {shape=[2, 2]}
%square.backward.multiply@0: f32[2, 2] = multiply(%square.grad@0, %square.backward.fill)
%blocks.0.negate.grad@0: f32[2, 2] = multiply(%square.backward.multiply@0, %blocks.0.negate@0)
%blocks.0.square.grad@0: f32[2, 2] = negate(%blocks.0.negate.grad@0)
%blocks.0.square.backward.multiply@0: f32[2, 2] = multiply(%blocks.0.square.grad@0, %blocks.0.square.backward.fill)
%blocks.0.matmul.recomputed@0: f32[2, 2] = matmul(%x@0, %blocks.0.w) {transpose_a=false, transpose_b=false} after square.backward.multiply_1@0
%blocks.0.matmul.grad@0: f32[2, 2] = multiply(%blocks.0.square.backward.multiply@0, %blocks.0.matmul.recomputed@0)
%blocks.0.w.grad@0: f32[3, 2] = matmul(%x@0, %blocks.0.matmul.grad@0) {transpose_a=true, transpose_b=false}
%blocks.0.matmul@1: f32[2, 2] = matmul(%x@1, %blocks.0.w) {transpose_a=false, transpose_b=false}
%blocks.0.square@1: f32[2, 2] = square(%blocks.0.matmul@1)
%blocks.0.negate@1: f32[2, 2] = negate(%blocks.0.square@1)
%square@1: f32[2, 2] = square(%blocks.0.negate@1)
%reduce_sum@1: f32[] = reduce_sum(%square@1) {axes=[0, 1], keep_dims=false}
%square.grad@1: f32[2, 2] = expand(%reduce_sum.grad) {shape=[2, 2]}
%square.backward.multiply@1: f32[2, 2] = multiply(%square.grad@1, %square.backward.fill)
%blocks.0.negate.grad@1: f32[2, 2] = multiply(%square.backward.multiply@1, %blocks.0.negate@1)
%blocks.0.square.grad@1: f32[2, 2] = negate(%blocks.0.negate.grad@1)
%blocks.0.square.backward.multiply@1: f32[2, 2] = multiply(%blocks.0.square.grad@1, %blocks.0.square.backward.fill)
%blocks.0.matmul.recomputed@1: f32[2, 2] = matmul(%x@1, %blocks.0.w) {transpose_a=false, transpose_b=false} after square.backward.multiply_1@1
%blocks.0.matmul.grad@1: f32[2, 2] = multiply(%blocks.0.square.backward.multiply@1, %blocks.0.matmul.recomputed@1)
%blocks.0.w.grad@1: f32[3, 2] = matmul(%x@1, %blocks.0.matmul.grad@1) {transpose_a=true, transpose_b=false}
%blocks.0.w.grad: f32[3, 2] = add(%blocks.0.w.grad@0, %blocks.0.w.grad@1)
output gradient = %blocks.0.w.grad
)");
}

TEST(RewriteErrorsTest, SayWhatDoesNotFit) {
  PlanPart part;
  part.set_graph("evaluate");
  EXPECT_EQ(Error(part), "the Plan's part for graph 'evaluate' is not for graph 'train'");
  part.Clear();
  part.set_fingerprint("0123");
  EXPECT_THAT(Error(part),
              HasSubstr("its fingerprint is 0123, this graph's " + OneBlock().Fingerprint()));
  part.Clear();
  part.set_micro_batches(-1);
  EXPECT_EQ(Error(part), "micro_batches: -1; it must be at least 1");
  part.set_micro_batches(3);
  EXPECT_EQ(Error(part), "micro_batches: 3 does not divide the batch of 4 rows of input 'x'");
  part.Clear();
  part.add_recompute("layers.0");
  EXPECT_EQ(
      Error(part),
      "recompute: graph 'train' has no block, scope or operator of the forward pass 'layers.0'; "
      "its blocks are blocks.0, and scopes and operators in a block have paths below it");
}

}  // namespace
}  // namespace tessera
