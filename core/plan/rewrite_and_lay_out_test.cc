#include "core/plan/rewrite_and_lay_out.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/micro_batches.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Returns "path: layouts" for each op, with "(added)" if the rewriting has added it.
std::string Lines(const RewrittenGraph& rewritten, const Mesh& mesh) {
  std::string lines;
  for (const OpId i : rewritten.graph.ops().ids()) {
    const Op& op = rewritten.graph.ops()[i];
    absl::StrAppend(&lines, op.path, op.origin.empty() ? " (added)" : "", ": ",
                    AxisUsesToString(rewritten.layouts.ops[i], mesh), "\n");
  }
  return lines;
}

RewrittenGraph Rewritten(const Graph& graph, const std::string& plan, int ranks) {
  const std::vector<Graph> graphs = {graph};
  const Plan completed = Completed(ParsePlan(plan), graphs, ranks);
  const Stage& stage = completed.stages(0);
  const Mesh mesh = Mesh::Create({{stage.mesh(0).name(), ranks}}).value();
  const LayoutDecisions decisions = FindDecisions(stage, graphs, mesh).value();
  auto rewritten = RewriteAndLayOut(graph, LayOutGraph(graph, 0, mesh, decisions).value(),
                                    stage.parts(0), mesh, decisions);
  EXPECT_TRUE(rewritten.ok()) << rewritten.status();
  return *std::move(rewritten);
}

const Mesh& Pair() {
  static const Mesh* const mesh = new Mesh(Mesh::Create({{"data", 2}}).value());
  return *mesh;
}

// The gradient of w is partial until the update, which completes the sum of both micro-batches.
TEST(RewriteAndLayOutTest, AccumulatesPartialValues) {
  const RewrittenGraph rewritten = Rewritten(TrainingGraph(8), R"text(stages {
    mesh { name: "data" } store { path: "x|labels" layout: "data: S(0)" }
    parts { graph: "train" micro_batches: 2 } })text",
                                             2);
  EXPECT_EQ(Lines(rewritten, Pair()), R"text(valid_mask@0: data: S(0) -> S(0)
valid_mask@1: data: S(0) -> S(0)
reduce_sum_1@0: data: S(0) -> P
reduce_sum_1@1: data: S(0) -> P
reduce_sum_1 (added): data: P, P -> P
fill: data: B
divide.backward.divide: data: B
square.backward.fill: data: B
matmul@0: data: S(0), B -> S(0)
reshape@0: data: S(0) -> S(0)
square@0: data: S(0) -> S(0)
multiply@0: data: S(0), S(0) -> S(0)
reduce_sum@0: data: S(0) -> P
divide@0: data: P, B -> P
reduce_sum.backward.expand@0: data: B -> S(0)
multiply.backward.multiply@0: data: S(0), S(0) -> S(0)
square.backward.multiply@0: data: S(0), B -> S(0)
square.backward.multiply_1@0: data: S(0), S(0) -> S(0)
reshape.backward.reshape@0: data: S(0) -> S(0)
matmul.backward.matmul@0: data: S(0), S(0) -> P
matmul@1: data: S(0), B -> S(0)
reshape@1: data: S(0) -> S(0)
square@1: data: S(0) -> S(0)
multiply@1: data: S(0), S(0) -> S(0)
reduce_sum@1: data: S(0) -> P
divide@1: data: P, B -> P
divide (added): data: P, P -> P
reduce_sum.backward.expand@1: data: B -> S(0)
multiply.backward.multiply@1: data: S(0), S(0) -> S(0)
square.backward.multiply@1: data: S(0), B -> S(0)
square.backward.multiply_1@1: data: S(0), S(0) -> S(0)
reshape.backward.reshape@1: data: S(0) -> S(0)
matmul.backward.matmul@1: data: S(0), S(0) -> P
w.grad (added): data: P, P -> P
subtract: data: B
)text");
}

// Each rank has some of the classes. The maxima and sums of rows are completed where they are read.
TEST(RewriteAndLayOutTest, APartReadsTheInputsOfItsOpAsTheOpDoes) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 6}}, 0);
  graph.SetOutput("y", Softmax(x, 1));
  const RewrittenGraph rewritten = Rewritten(graph, R"text(stages {
    mesh { name: "data" } compute { path: "softmax" signature: "data: S(1) -> S(1)" }
    parts { graph: "train" } })text",
                                             2);
  EXPECT_EQ(Lines(rewritten, Pair()), R"text(softmax.reduce_max: data: S(1) -> P(max)
softmax.subtract: data: S(1), B -> S(1)
softmax.exp: data: S(1) -> S(1)
softmax.reduce_sum: data: S(1) -> P
softmax: data: S(1), B -> S(1)
)text");
}

// On an axis of one rank nothing is split.
TEST(RewriteAndLayOutTest, OneRankComputesTheWholeOp) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 6}}, 0);
  graph.SetOutput("y", Softmax(x, 1));
  const RewrittenGraph rewritten = Rewritten(graph, R"text(stages {
    mesh { name: "data" } compute { path: "softmax" signature: "data: S(1) -> S(1)" }
    parts { graph: "train" } })text",
                                             1);
  EXPECT_EQ(rewritten.graph.ops().size(), 1);
}

// If each rank has the full batch, it stays one input, as on one device.
TEST(RewriteAndLayOutTest, ABatchThatEachRankHasStaysOneInput) {
  const RewrittenGraph rewritten = Rewritten(TrainingGraph(8), R"text(stages {
    mesh { name: "data" } parts { graph: "train" micro_batches: 2 } })text",
                                             2);
  ASSERT_EQ(rewritten.graph.inputs().size(), 2);
  for (const std::vector<AxisUse>& uses : rewritten.layouts.ops) {
    EXPECT_EQ(AxisUsesToString(uses, Pair()), "data: B");
  }
}

// If an op or an output needs all rows, they are assembled from the parts.
TEST(RewriteAndLayOutTest, JoinsTheRowsOfAnInputThatIsReadInFull) {
  Graph graph("full");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  graph.SetOutput("rows", x);
  graph.SetOutput("sum", ReduceSum(x, {0}));
  const RewrittenGraph rewritten = Rewritten(graph, R"text(stages {
    mesh { name: "data" } store { path: "x" layout: "data: S(0)" }
    parts { graph: "full" micro_batches: 2 } })text",
                                             2);
  EXPECT_EQ(Lines(rewritten, Pair()), R"text(reduce_sum@0: data: S(0) -> P
reduce_sum@1: data: S(0) -> P
reduce_sum (added): data: P, P -> P
x (added): data: B
)text");
}

// Kept logits are split as the operand is along which the loss is split, and read as they are made.
TEST(RewriteAndLayOutTest, KeptLogitsAreSplitByRowsOrWords) {
  Graph graph("train");
  const Tensor x = graph.Input("x", F32({4, 6, 3}), 0);
  const Tensor targets = graph.Input("targets", {DType::kI32, {4, 6}}, 0);
  const Tensor w = graph.Parameter("w", {10, 3}, Initializer::Constant(1));
  const auto gradients = RecordGradients(graph, LinearCrossEntropy(x, w, targets).mean, {w});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());
  const auto lines = [&](const std::string& choices) {
    const std::string plan = "stages { mesh { name: 'data' } " + choices +
                             " parts { graph: 'train' logits: KEPT micro_batches: 2 } }";
    const RewrittenGraph rewritten = Rewritten(graph, plan, 2);
    std::string found;
    for (const OpId i : rewritten.graph.ops().ids()) {
      const Op& op = rewritten.graph.ops()[i];
      if (op.kind->name().substr(0, 18) != "linear_log_sum_exp" || op.micro_batch != 1) continue;
      absl::StrAppend(&found, AxisUsesToString(rewritten.layouts.ops[i], Pair()), "\n");
    }
    return found;
  };
  EXPECT_EQ(lines("store { path: 'x|targets' layout: 'data: S(0)' }"),
            "data: S(0), B, S(0) -> S(0), S(0), S(0)\n"
            "data: S(0), S(0), S(0), B, S(0), S(0), S(0) -> S(0), P\n");
  EXPECT_EQ(lines("store { path: 'w' layout: 'data: S(0)' } compute { path: 'linear_log_sum_exp' "
                  "signature: 'data: B, S(0), B -> P(lse), P' }"),
            "data: B, S(0), B -> P(lse), P, S(2)\n"
            "data: B, B, B, S(0), B, B, S(2) -> P, S(0)\n");
  EXPECT_EQ(lines("store { path: 'w' layout: 'data: S(0, 4)' } compute { path: "
                  "'linear_log_sum_exp' signature: 'data: B, S(0, 4), B -> P(lse), P' }"),
            "data: B, S(0, 4), B -> P(lse), P, S(2, 4)\n"
            "data: B, B, B, S(0, 4), B, B, S(2, 4) -> P, S(0, 4)\n");
  EXPECT_EQ(lines(""), "data: B\ndata: B\n");
}

TEST(RewriteAndLayOutTest, OpsAndValuesSayWhatTheyRepeat) {
  const RewrittenGraph rewritten = Rewritten(TrainingGraph(8), R"text(stages {
    mesh { name: "data" } store { path: "x|labels" layout: "data: S(0)" }
    parts { graph: "train" micro_batches: 4 } })text",
                                             2);
  const Graph& graph = rewritten.graph;
  const ValueId w = graph.FindState("w")->input;
  for (const char* path : {"w.grad@0", "w.grad@3", "w.grad@0..1", "w.grad@0..2", "w.grad"}) {
    const Value& gradient = graph.value(graph.FindValue(path));
    EXPECT_EQ(gradient.complete_gradient_of, w) << path;
    EXPECT_EQ(gradient.gradient_of, w) << path;
    EXPECT_TRUE(gradient.region == nullptr) << path;
  }
  const Op& product = graph.op(graph.value(graph.FindValue("matmul@2")).producer);
  EXPECT_EQ(product.origin.str(), "matmul");
  EXPECT_EQ(product.micro_batch, 2);
  const Value& output = graph.value(product.outputs[0]);
  EXPECT_EQ(output.region->start, Shape({4, 0}));
  EXPECT_EQ(output.region->global, Shape({8, 1}));
  const Value& gradient = graph.value(graph.FindValue("matmul.grad@2"));
  EXPECT_EQ(graph.value(gradient.gradient_of).path, "matmul@2");
  const Op& backward = graph.op(graph.value(graph.FindValue("w.grad@2")).producer);
  EXPECT_EQ(graph.op(backward.gradient_of).path, "matmul@2");
  EXPECT_EQ(graph.op(graph.value(graph.FindValue("w.grad@0..1")).producer).origin.str(), "");
  EXPECT_EQ(graph.op(graph.value(graph.FindValue("subtract")).producer).origin.str(), "subtract");
}

}  // namespace
}  // namespace tessera
