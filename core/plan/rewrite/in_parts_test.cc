#include "core/plan/rewrite/in_parts.h"

#include <string>
#include <vector>

#include "core/ops/ops.h"
#include "core/plan/rewrite/slices.h"
#include "core/plan/testing/completion.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Records the weighted sum of a softmax, and the gradient of its input w.
Graph TrainingGraph() {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {2, 3}}, 0);
  Tensor loss, w;
  {
    Scope block(&graph, "block", Scope::kBlock);
    w = graph.Parameter("w", {2, 3}, Initializer::Constant(1));
    const Tensor product = Multiply(Softmax(w, 1), x);
    loss = ReduceSum(product, {0, 1});
  }
  auto gradients = RecordGradients(graph, loss, {w});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("loss", loss);
  graph.SetOutput("gradient", gradients->front());
  return graph;
}

Graph InParts(const Graph& graph, const std::vector<std::string>& kinds) {
  Table<OpId, bool> in_parts;
  for (const Op& op : graph.ops()) {
    bool named = false;
    for (const std::string& kind : kinds) named = named || op.kind->name() == kind;
    in_parts.push_back(named);
  }
  return WriteInParts(graph, in_parts);
}

TEST(InPartsTest, PartsStandInThePlaceOfTheirOp) {
  EXPECT_EQ(InParts(TrainingGraph(), {"softmax", "softmax_grad"}).ToString(), R"(graph train
input %x: f32[2, 3] batch_dim=0
parameter %block.w: f32[2, 3] {constant=1.0}
%block.softmax.reduce_max: f32[2, 1] = reduce_max(%block.w) {axes=[1], keep_dims=true}
%block.softmax.subtract: f32[2, 3] = subtract(%block.w, %block.softmax.reduce_max)
%block.softmax.exp: f32[2, 3] = exp(%block.softmax.subtract)
%block.softmax.reduce_sum: f32[2, 1] = reduce_sum(%block.softmax.exp) {axes=[1], keep_dims=true}
%block.softmax: f32[2, 3] = divide(%block.softmax.exp, %block.softmax.reduce_sum)
%block.multiply: f32[2, 3] = multiply(%block.softmax, %x)
%block.reduce_sum: f32[] = reduce_sum(%block.multiply) {axes=[0, 1], keep_dims=false}
%block.reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%block.multiply.grad: f32[2, 3] = expand(%block.reduce_sum.grad) {shape=[2, 3]}
%block.softmax.grad: f32[2, 3] = multiply(%block.multiply.grad, %x)
%block.softmax.backward.softmax_grad.multiply: f32[2, 3] = multiply(%block.softmax.grad, %block.softmax)
%block.softmax.backward.softmax_grad.reduce_sum: f32[2, 1] = reduce_sum(%block.softmax.backward.softmax_grad.multiply) {axes=[1], keep_dims=true}
%block.softmax.backward.softmax_grad.subtract: f32[2, 3] = subtract(%block.softmax.grad, %block.softmax.backward.softmax_grad.reduce_sum)
%block.w.grad: f32[2, 3] = multiply(%block.softmax.backward.softmax_grad.subtract, %block.softmax)
output loss = %block.reduce_sum
output gradient = %block.w.grad
)");
}

TEST(InPartsTest, PartsAreNumberedAndHaveThePlaceOfTheirOp) {
  const Graph recorded = TrainingGraph();
  const Graph graph = InParts(recorded, {"softmax"});
  int parts = 0;
  for (const Op& op : graph.ops()) {
    if (op.part == kNone) {
      EXPECT_EQ(op.origin.str(), op.path);
      continue;
    }
    EXPECT_EQ(op.part, parts++);
    EXPECT_EQ(op.origin.str(), "block.softmax");
    EXPECT_EQ(op.phase, Phase::kForward);
    EXPECT_EQ(op.block, recorded.ops()[OpId(0)].block);
  }
  EXPECT_EQ(parts, 5);
  // The gradient of an op whose parts stand in its place is the gradient of none of them.
  const Op& gradient = graph.op(graph.value(graph.FindValue("block.w.grad")).producer);
  EXPECT_EQ(gradient.kind->name(), "softmax_grad");
  EXPECT_EQ(gradient.gradient_of, kNone);
  EXPECT_EQ(graph.value(gradient.outputs[0]).complete_gradient_of,
            graph.FindState("block.w")->input);
}

// Logits by a slice of the words are those of these words.
TEST(InPartsTest, BetweenPartsOfASliceValuesHaveItsRegion) {
  std::vector<Graph> graphs;
  Graph& graph = graphs.emplace_back("train");
  const Tensor x = graph.Input("x", {DType::kF32, {2, 5}}, 0);
  const Tensor targets = graph.Input("targets", {DType::kI32, {2}}, 0);
  const Tensor w = graph.Parameter("w", {7, 5}, Initializer::Constant(1));
  const RowLogits rows = LinearLogSumExp(x, w, targets);
  const Tensor loss = ReduceSum(Subtract(rows.lse, rows.target_logit), {0});
  const auto gradients = RecordGradients(graph, loss, {w});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());

  const Plan plan = ParsePlan("stages { slice { path: 'w' count: 2 } }");
  const auto slices = FindSlices(plan.stages(0), graphs);
  ASSERT_TRUE(slices.ok()) << slices.status();
  const auto sliced = SliceGraphs(graphs, *slices);
  ASSERT_TRUE(sliced.ok()) << sliced.status();
  const Graph in_parts =
      InParts(sliced->front(), {"linear_log_sum_exp", "linear_log_sum_exp_grad"});
  int logits = 0;
  for (const Op& op : in_parts.ops()) {
    const Value& value = in_parts.value(op.outputs[0]);
    if (op.part == kNone || value.type.shape.size() != 2 || value.type.shape[1] == 5) continue;
    ++logits;
    ASSERT_NE(value.region, nullptr) << value.path;
    EXPECT_EQ(value.region->start, (Shape{0, op.slice * 4})) << value.path;
    EXPECT_EQ(value.region->global, (Shape{2, 7})) << value.path;
  }
  EXPECT_EQ(logits, 6);  // of each slice, forward and backward, and their gradients
}

TEST(InPartsTest, WithoutOpsInPartsTheGraphIsTheSame) {
  const Graph recorded = TrainingGraph();
  const Graph graph = InParts(recorded, {});
  EXPECT_EQ(graph.ToString(), recorded.ToString());
  for (const OpId id : graph.ops().ids()) {
    EXPECT_EQ(graph.op(id).gradient_of, recorded.op(id).gradient_of);
  }
}

}  // namespace
}  // namespace tessera
