#include "core/plan/rewrite/recompute.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Records two blocks of x + gelu(x w) with dropout, the sum of the last block's output as the loss,
// and its gradients.
Graph TwoBlocks() {
  Graph graph("train");
  Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  std::vector<Tensor> parameters;
  for (int i = 0; i < 2; ++i) {
    Scope block(&graph, absl::StrCat("blocks.", i), Scope::kBlock);
    const Tensor w = graph.Parameter("w", {9}, Initializer::Constant(1));
    parameters.push_back(w);
    const Tensor product = MatMul(x, Reshape(w, {3, 3}));
    x = Add(x, Dropout(Gelu(product, GeluKind::kTanh), 0.5));
  }
  const Tensor loss = ReduceSum(x, {0, 1});
  auto gradients = RecordGradients(graph, loss, parameters);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("loss", loss);
  for (size_t i = 0; i < parameters.size(); ++i) {
    graph.SetOutput(absl::StrCat("gradient_", i), (*gradients)[i]);
  }
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

std::string Recomputed(const Graph& graph, const std::vector<std::string>& blocks) {
  const auto result = RecomputeBlocks(graph, blocks);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->ToString() : "";
}

TEST(RecomputeTest, CopiesWhatTheBackwardPassNeeds) {
  const Graph graph = TwoBlocks();
  EXPECT_EQ(graph.ToString(), R"(graph train
input %x: f32[4, 3] batch_dim=0
input %seed: i64[]
input %step: i64[]
parameter %blocks.0.w: f32[9] {constant=1.0}
parameter %blocks.1.w: f32[9] {constant=1.0}
%blocks.0.reshape: f32[3, 3] = reshape(%blocks.0.w) {shape=[3, 3]}
%blocks.0.matmul: f32[4, 3] = matmul(%x, %blocks.0.reshape) {transpose_a=false, transpose_b=false}
%blocks.0.gelu: f32[4, 3] = gelu(%blocks.0.matmul) {approximate="tanh"}
%blocks.0.dropout: f32[4, 3] = dropout(%blocks.0.gelu, %seed, %step) {probability=0.5, random_path="blocks.0.dropout"}
%blocks.0.add: f32[4, 3] = add(%x, %blocks.0.dropout)
%blocks.1.reshape: f32[3, 3] = reshape(%blocks.1.w) {shape=[3, 3]}
%blocks.1.matmul: f32[4, 3] = matmul(%blocks.0.add, %blocks.1.reshape) {transpose_a=false, transpose_b=false}
%blocks.1.gelu: f32[4, 3] = gelu(%blocks.1.matmul) {approximate="tanh"}
%blocks.1.dropout: f32[4, 3] = dropout(%blocks.1.gelu, %seed, %step) {probability=0.5, random_path="blocks.1.dropout"}
%blocks.1.add: f32[4, 3] = add(%blocks.0.add, %blocks.1.dropout)
%reduce_sum: f32[] = reduce_sum(%blocks.1.add) {axes=[0, 1], keep_dims=false}
%reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%blocks.1.add.grad: f32[4, 3] = expand(%reduce_sum.grad) {shape=[4, 3]}
%blocks.1.gelu.grad: f32[4, 3] = dropout(%blocks.1.add.grad, %seed, %step) {probability=0.5, random_path="blocks.1.dropout"}
%blocks.1.matmul.grad: f32[4, 3] = gelu_grad(%blocks.1.gelu.grad, %blocks.1.matmul) {approximate="tanh"}
%blocks.1.matmul.backward.matmul: f32[4, 3] = matmul(%blocks.1.matmul.grad, %blocks.1.reshape) {transpose_a=false, transpose_b=true}
%blocks.1.reshape.grad: f32[3, 3] = matmul(%blocks.0.add, %blocks.1.matmul.grad) {transpose_a=true, transpose_b=false}
%blocks.0.add.grad: f32[4, 3] = add(%blocks.1.add.grad, %blocks.1.matmul.backward.matmul)
%blocks.1.w.grad: f32[9] = reshape(%blocks.1.reshape.grad) {shape=[9]}
%blocks.0.gelu.grad: f32[4, 3] = dropout(%blocks.0.add.grad, %seed, %step) {probability=0.5, random_path="blocks.0.dropout"}
%blocks.0.matmul.grad: f32[4, 3] = gelu_grad(%blocks.0.gelu.grad, %blocks.0.matmul) {approximate="tanh"}
%blocks.0.reshape.grad: f32[3, 3] = matmul(%x, %blocks.0.matmul.grad) {transpose_a=true, transpose_b=false}
%blocks.0.w.grad: f32[9] = reshape(%blocks.0.reshape.grad) {shape=[9]}
output loss = %reduce_sum
output gradient_0 = %blocks.0.w.grad
output gradient_1 = %blocks.1.w.grad
)");
  EXPECT_EQ(Recomputed(graph, {"blocks.0", "blocks.1"}), R"(graph train
input %x: f32[4, 3] batch_dim=0
input %seed: i64[]
input %step: i64[]
parameter %blocks.0.w: f32[9] {constant=1.0}
parameter %blocks.1.w: f32[9] {constant=1.0}
%blocks.0.reshape: f32[3, 3] = reshape(%blocks.0.w) {shape=[3, 3]}
%blocks.0.matmul: f32[4, 3] = matmul(%x, %blocks.0.reshape) {transpose_a=false, transpose_b=false}
%blocks.0.gelu: f32[4, 3] = gelu(%blocks.0.matmul) {approximate="tanh"}
%blocks.0.dropout: f32[4, 3] = dropout(%blocks.0.gelu, %seed, %step) {probability=0.5, random_path="blocks.0.dropout"}
%blocks.0.add: f32[4, 3] = add(%x, %blocks.0.dropout)
%blocks.1.reshape: f32[3, 3] = reshape(%blocks.1.w) {shape=[3, 3]}
%blocks.1.matmul: f32[4, 3] = matmul(%blocks.0.add, %blocks.1.reshape) {transpose_a=false, transpose_b=false}
%blocks.1.gelu: f32[4, 3] = gelu(%blocks.1.matmul) {approximate="tanh"}
%blocks.1.dropout: f32[4, 3] = dropout(%blocks.1.gelu, %seed, %step) {probability=0.5, random_path="blocks.1.dropout"}
%blocks.1.add: f32[4, 3] = add(%blocks.0.add, %blocks.1.dropout)
%reduce_sum: f32[] = reduce_sum(%blocks.1.add) {axes=[0, 1], keep_dims=false}
%reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%blocks.1.add.grad: f32[4, 3] = expand(%reduce_sum.grad) {shape=[4, 3]}
%blocks.1.gelu.grad: f32[4, 3] = dropout(%blocks.1.add.grad, %seed, %step) {probability=0.5, random_path="blocks.1.dropout"}
%blocks.1.matmul.recomputed: f32[4, 3] = matmul(%blocks.0.add, %blocks.1.reshape) {transpose_a=false, transpose_b=false} after reduce_sum.backward.expand
%blocks.1.matmul.grad: f32[4, 3] = gelu_grad(%blocks.1.gelu.grad, %blocks.1.matmul.recomputed) {approximate="tanh"}
%blocks.1.matmul.backward.matmul: f32[4, 3] = matmul(%blocks.1.matmul.grad, %blocks.1.reshape) {transpose_a=false, transpose_b=true}
%blocks.1.reshape.grad: f32[3, 3] = matmul(%blocks.0.add, %blocks.1.matmul.grad) {transpose_a=true, transpose_b=false}
%blocks.0.add.grad: f32[4, 3] = add(%blocks.1.add.grad, %blocks.1.matmul.backward.matmul)
%blocks.1.w.grad: f32[9] = reshape(%blocks.1.reshape.grad) {shape=[9]}
%blocks.0.gelu.grad: f32[4, 3] = dropout(%blocks.0.add.grad, %seed, %step) {probability=0.5, random_path="blocks.0.dropout"}
%blocks.0.matmul.recomputed: f32[4, 3] = matmul(%x, %blocks.0.reshape) {transpose_a=false, transpose_b=false} after blocks.1.matmul.backward.add
%blocks.0.matmul.grad: f32[4, 3] = gelu_grad(%blocks.0.gelu.grad, %blocks.0.matmul.recomputed) {approximate="tanh"}
%blocks.0.reshape.grad: f32[3, 3] = matmul(%x, %blocks.0.matmul.grad) {transpose_a=true, transpose_b=false}
%blocks.0.w.grad: f32[9] = reshape(%blocks.0.reshape.grad) {shape=[9]}
output loss = %reduce_sum
output gradient_0 = %blocks.0.w.grad
output gradient_1 = %blocks.1.w.grad
)");
}

TEST(RecomputeTest, TakesTheBlocksThatAreChosen) {
  const std::string text = Recomputed(TwoBlocks(), {"blocks.1", "blocks.1"});
  EXPECT_THAT(text, HasSubstr("%blocks.1.matmul.recomputed"));
  EXPECT_THAT(text, Not(HasSubstr("%blocks.0.matmul.recomputed")));
  const Graph graph = TwoBlocks();
  EXPECT_EQ(Recomputed(graph, {}), graph.ToString());
}

TEST(RecomputeTest, MarksCopies) {
  const auto graph = RecomputeBlocks(TwoBlocks(), {"blocks.0"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  int copies = 0;
  for (const Op& op : graph->ops()) {
    EXPECT_EQ(op.recomputed, absl::EndsWith(op.path, ".recomputed")) << op.path;
    if (!op.recomputed) continue;
    ++copies;
    EXPECT_EQ(op.phase, Phase::kBackward) << op.path;
    EXPECT_EQ(graph->value(op.outputs[0]).role, Role::kActivation) << op.path;
  }
  EXPECT_EQ(copies, 1);
  EXPECT_EQ(graph->blocks(), TwoBlocks().blocks());
}

// A chain without residuals: a block's backward pass reads the block's own output, which is kept.
TEST(RecomputeTest, KeepsWhatLeavesABlock) {
  Graph graph("train");
  Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  std::vector<Tensor> parameters;
  for (int i = 0; i < 2; ++i) {
    Scope block(&graph, absl::StrCat("layers.", i), Scope::kBlock);
    parameters.push_back(graph.Parameter("w", {3, 3}, Initializer::Constant(1)));
    x = Relu(MatMul(x, parameters.back()));
  }
  const Tensor loss = ReduceSum(x, {0, 1});
  ASSERT_TRUE(RecordGradients(graph, loss, parameters).ok());
  EXPECT_EQ(Recomputed(graph, {"layers.0", "layers.1"}), graph.ToString());
}

TEST(RecomputeTest, LeavesAGraphWithoutABackwardPassAlone) {
  Graph graph("evaluate");
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    graph.SetOutput("y", Exp(Square(graph.Input("x", {DType::kF32, {4}}, 0))));
  }
  EXPECT_EQ(Recomputed(graph, {"blocks.0"}), graph.ToString());
}

TEST(RecomputeErrorsTest, NameTheBlocksThatThereAre) {
  EXPECT_EQ(RecomputeBlocks(TwoBlocks(), {"blocks.0", "block.1"}).status().message(),
            "recompute: graph 'train' has no block 'block.1'; its blocks are blocks.0, blocks.1");
  Graph graph("generate");
  EXPECT_EQ(RecomputeBlocks(graph, {"blocks.0"}).status().message(),
            "recompute: graph 'generate' has no block 'blocks.0'; it has none");
}

}  // namespace
}  // namespace tessera
