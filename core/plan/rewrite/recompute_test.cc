#include "core/plan/rewrite/recompute.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/ids/table.h"
#include "core/ops/ops.h"
#include "core/plan/rewrite/micro_batches.h"
#include "core/plan/testing/transformer.h"
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
  const auto result = Recompute(graph, blocks);
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
  const auto graph = Recompute(TwoBlocks(), {"blocks.0"});
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

// A running statistic is computed once, however the block that makes it is recomputed. Regression:
// micro-batches could not share the copy of a constant.
TEST(RecomputeTest, KeepsNumbersAndWhatTheUpdateReads) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  Tensor w, y;
  {
    Scope block(&graph, "block", Scope::kBlock);
    w = graph.Parameter("w", {3, 3}, Initializer::Constant(1));
    graph.RunningStatistic("average", {3}, Initializer::Constant(0));
    const Tensor product = Gelu(AddConstant(MatMul(x, w), 0.5), GeluKind::kTanh);
    graph.SetState("block.average", ReduceSum(product, {0}));
    y = Tanh(product);
  }
  const Tensor loss = ReduceSum(Square(y), {0, 1});
  ASSERT_TRUE(RecordGradients(graph, loss, {w}).ok());
  graph.set_phase(Phase::kUpdate);
  const State* const state = graph.FindState("block.average");
  const Tensor before = graph.tensor(state->input), after = graph.tensor(state->updated);
  const Tensor finite = AllFinite({loss});
  graph.SetState("block.average", Select(finite, after, before));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const auto recomputed = Recompute(graph, {"block"});
  ASSERT_TRUE(recomputed.ok()) << recomputed.status();
  const std::string text = recomputed->ToString();
  EXPECT_THAT(text, HasSubstr("%block.add.recomputed: f32[4, 3] = add(%block.matmul.recomputed, "
                              "%block.fill)"));
  EXPECT_THAT(text, Not(HasSubstr("reduce_sum.recomputed")));
  EXPECT_TRUE(SplitIntoMicroBatches(*recomputed, 2).ok());
}

TEST(RecomputeTest, LeavesAGraphWithoutABackwardPassAlone) {
  Graph graph("evaluate");
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    graph.SetOutput("y", Exp(Square(graph.Input("x", {DType::kF32, {4}}, 0))));
  }
  EXPECT_EQ(Recomputed(graph, {"blocks.0"}), graph.ToString());
}

// Records two blocks of x + gelu(x w) v, a product of all by a head, the sum of it as the loss, and
// its gradients.
Graph TwoMlps() {
  Graph graph("train");
  Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  std::vector<Tensor> parameters;
  const auto parameter = [&](const Shape& shape) {
    parameters.push_back(graph.Parameter("w", shape, Initializer::Constant(1)));
    return parameters.back();
  };
  const auto product = [&](absl::string_view name, Tensor by, const Shape& shape) {
    Scope scope(&graph, name);
    return MatMul(by, parameter(shape));
  };
  for (int i = 0; i < 2; ++i) {
    Scope block(&graph, absl::StrCat("blocks.", i), Scope::kBlock);
    Scope scope(&graph, "mlp");
    x = Add(x, product("proj", Gelu(product("fc", x, {3, 5}), GeluKind::kTanh), {5, 3}));
  }
  const Tensor loss = ReduceSum(product("head", Square(x), {3, 2}), {0, 1});
  EXPECT_TRUE(RecordGradients(graph, loss, parameters).ok());
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

// Returns the lines of recomputed ops and of ops that read them.
std::string RecomputedLines(const Graph& graph, const std::vector<std::string>& paths) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(Recomputed(graph, paths), '\n')) {
    if (absl::StrContains(line, ".recomputed")) absl::StrAppend(&lines, line, "\n");
  }
  return lines;
}

// GELU's input is kept, and its output is not, though the forward pass reads it in the same block.
TEST(RecomputeScopesTest, AnOperatorReadsItsInputAndRunsAfterTheGradientThatNeedsIt) {
  EXPECT_EQ(
      RecomputedLines(TwoMlps(), {"blocks.*.mlp.gelu"}),
      R"(%blocks.1.mlp.gelu.recomputed: f32[4, 5] = gelu(%blocks.1.mlp.fc.matmul) {approximate="tanh"} after square.backward.multiply_1
%blocks.1.mlp.proj.w.grad: f32[5, 3] = matmul(%blocks.1.mlp.gelu.recomputed, %blocks.1.mlp.add.grad) {transpose_a=true, transpose_b=false}
%blocks.0.mlp.gelu.recomputed: f32[4, 5] = gelu(%blocks.0.mlp.fc.matmul) {approximate="tanh"} after blocks.1.mlp.fc.matmul.backward.add
%blocks.0.mlp.proj.w.grad: f32[5, 3] = matmul(%blocks.0.mlp.gelu.recomputed, %blocks.0.mlp.add.grad) {transpose_a=true, transpose_b=false}
)");
}

TEST(RecomputeScopesTest, CopiesOfAScopeReadThoseOfAnother) {
  EXPECT_EQ(
      RecomputedLines(TwoMlps(), {"blocks.0.mlp.gelu", "blocks.0.mlp.fc"}),
      R"(%blocks.0.mlp.fc.matmul.recomputed: f32[4, 5] = matmul(%x, %blocks.0.mlp.fc.w) {transpose_a=false, transpose_b=false} after blocks.1.mlp.fc.matmul.backward.add
%blocks.0.mlp.gelu.recomputed: f32[4, 5] = gelu(%blocks.0.mlp.fc.matmul.recomputed) {approximate="tanh"}
%blocks.0.mlp.proj.w.grad: f32[5, 3] = matmul(%blocks.0.mlp.gelu.recomputed, %blocks.0.mlp.add.grad) {transpose_a=true, transpose_b=false}
%blocks.0.mlp.fc.matmul.grad: f32[4, 5] = gelu_grad(%blocks.0.mlp.gelu.grad, %blocks.0.mlp.fc.matmul.recomputed) {approximate="tanh"}
)");
}

TEST(RecomputeScopesTest, TheOutermostScopeIncludesThoseInIt) {
  const Graph graph = TwoMlps();
  const std::string block = Recomputed(graph, {"blocks.0"});
  EXPECT_EQ(Recomputed(graph, {"blocks.0", "blocks.0.mlp.gelu"}), block);
  EXPECT_EQ(Recomputed(graph, {"blocks.0.mlp.gelu|blocks.0", "blocks.*.mlp.nothing|blocks.0"}),
            block);
  const std::string blocks = Recomputed(graph, {"blocks.1", "blocks.0"});
  EXPECT_EQ(Recomputed(graph, {"blocks"}), blocks);
  EXPECT_EQ(Recomputed(graph, {"blocks.*"}), blocks);
  EXPECT_EQ(Recomputed(graph, {"blocks.1.mlp.gelu", "blocks"}), blocks);
  const std::string mlp = Recomputed(graph, {"blocks.0.mlp"});
  EXPECT_EQ(Recomputed(graph, {"blocks.0.mlp", "blocks.0.mlp.gelu"}), mlp);
  EXPECT_EQ(Recomputed(graph, {"blocks.0.mlp.gelu", "blocks.0.mlp"}), mlp);
}

// All of a block's scopes: its output, which the next block reads, is kept nevertheless.
TEST(RecomputeScopesTest, KeepWhatAnotherBlockReads) {
  const std::string text = RecomputedLines(TwoMlps(), {"blocks.*.mlp"});
  EXPECT_THAT(text, HasSubstr("%blocks.0.mlp.gelu.recomputed"));
  EXPECT_THAT(text, HasSubstr("%blocks.1.mlp.fc.matmul.recomputed"));
  EXPECT_THAT(text, Not(HasSubstr("add.recomputed")));
  EXPECT_THAT(text, Not(HasSubstr("proj.matmul.recomputed")));
}

TEST(RecomputeScopesTest, MayBeOutsideOfBlocks) {
  const std::string text = RecomputedLines(TwoMlps(), {"square", "head"});
  EXPECT_THAT(text, HasSubstr("%square.recomputed"));
  EXPECT_THAT(text, Not(HasSubstr("head.matmul.recomputed")));
}

// A view that is kept would keep what it is a view of; a view that leaves the block does.
TEST(RecomputeScopesTest, ViewsAreAsWhatTheyAreViewsOf) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  const Tensor w = graph.Parameter("w", {6, 2}, Initializer::Constant(1));
  const Tensor v = graph.Parameter("v", {2, 2}, Initializer::Constant(1));
  Tensor y;
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    y = MatMul(Reshape(Gelu(x, GeluKind::kTanh), {2, 6}), w);
    y = Reshape(Relu(y), {2, 2});
  }
  const Tensor loss = ReduceSum(MatMul(y, v), {0, 1});
  ASSERT_TRUE(RecordGradients(graph, loss, {w, v}).ok());
  const std::string gelu = RecomputedLines(graph, {"blocks.0.gelu"});
  EXPECT_THAT(gelu, HasSubstr("%blocks.0.gelu.recomputed: f32[4, 3] = gelu(%x)"));
  EXPECT_THAT(gelu, HasSubstr("%blocks.0.reshape.recomputed: f32[2, 6] = "
                              "reshape(%blocks.0.gelu.recomputed)"));
  EXPECT_EQ(Recomputed(graph, {"blocks.0.relu"}), graph.ToString());
}

// Every copy depends on the backward pass, so that it cannot run before it.
TEST(RecomputeScopesTest, EveryCopyWaitsForTheBackwardPass) {
  const Graph graph = RecordTransformerTraining({.layers = 3});
  const std::vector<std::vector<std::string>> choices = {
      {"blocks.*.mlp.gelu"},   {"blocks.*.ln1"},           {"blocks.*.ln2", "blocks.*.mlp.fc"},
      {"blocks.*.attn"},       {"blocks.*.attn.qkv"},      {"blocks.*.mlp"},
      {"blocks.*.*"},          {"blocks.*.ln1", "blocks"}, {"blocks.*.attn.*", "blocks.1"},
      {"blocks.*.mlp.dropout"}};
  for (const std::vector<std::string>& paths : choices) {
    SCOPED_TRACE(absl::StrJoin(paths, ", "));
    const auto recomputed = Recompute(graph, paths);
    ASSERT_TRUE(recomputed.ok()) << recomputed.status();
    Table<OpId, bool> waits(recomputed->ops().size(), false);
    int copies = 0;
    for (const OpId id : recomputed->ops().ids()) {
      const Op& op = recomputed->op(id);
      std::vector<OpId> earlier = op.after;
      for (const ValueId input : op.inputs) {
        if (recomputed->value(input).producer != kNone) {
          earlier.push_back(recomputed->value(input).producer);
        }
      }
      waits[id] = (op.phase != Phase::kForward && !op.recomputed) ||
                  absl::c_any_of(earlier, [&](OpId other) { return waits[other]; });
      if (!op.recomputed) continue;
      ++copies;
      EXPECT_TRUE(waits[id]) << op.path;
    }
    EXPECT_EQ(copies == 0, paths[0] == "blocks.*.mlp.dropout");
  }
}

TEST(RecomputeErrorsTest, NameTheBlocksThatThereAre) {
  const auto error = [](const std::vector<std::string>& paths) {
    return std::string(Recompute(TwoBlocks(), paths).status().message());
  };
  const std::string has_no =
      "recompute: graph 'train' has no block, scope or operator of the forward pass ";
  const std::string blocks =
      "; its blocks are blocks.0, blocks.1, and scopes and operators in a block have paths below "
      "it";
  EXPECT_EQ(error({"blocks.0", "block.1"}),
            has_no + "'block.1'" + blocks + "; did you mean 'blocks.1'?");
  EXPECT_EQ(error({"blocks.0.gleu"}),
            has_no + "'blocks.0.gleu'" + blocks + "; did you mean 'blocks.0.gelu'?");
  EXPECT_EQ(error({"blocks.*.ln1"}), has_no + "'blocks.*.ln1'" + blocks);
  // A parameter, and an operator of the backward pass.
  EXPECT_THAT(error({"blocks.0.w"}), HasSubstr("'blocks.0.w'"));
  EXPECT_THAT(error({"blocks.0.gelu.backward.gelu_grad"}), HasSubstr("gelu_grad'"));
  EXPECT_EQ(error({""}), "recompute: an empty path");
  EXPECT_EQ(error({"blocks.0|"}), "recompute: path 'blocks.0|' has an empty alternative");
  EXPECT_EQ(Recompute(Graph("generate"), {"blocks.0"}).status().message(),
            "recompute: graph 'generate' has no block, scope or operator of the forward pass "
            "'blocks.0'; it has no blocks");
}

}  // namespace
}  // namespace tessera
