#include "core/plan/rewrite/in_parts.h"

#include <string>
#include <vector>

#include "core/ops/ops.h"
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
