#include "core/plan/rewrite/keep_logits.h"

#include <string>
#include <vector>

#include "core/ops/ops.h"
#include "core/plan/check.h"
#include "core/plan/rewrite/rewrite.h"
#include "core/plan/rewrite/slices.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/micro_batches.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Records the sum of the cross-entropies of x w^T, in a block, and the gradient of w.
Graph TrainingHead() {
  Graph graph("train");
  const Tensor targets = graph.Input("targets", {DType::kI32, {4}}, 0);
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  Tensor w, loss;
  {
    Scope block(&graph, "head", Scope::kBlock);
    w = graph.Parameter("w", {5, 3}, Initializer::Constant(1));
    const RowLogits rows = LinearLogSumExp(x, w, targets);
    loss = ReduceSum(Subtract(rows.lse, rows.target_logit), {0});
  }
  auto gradients = RecordGradients(graph, loss, {w});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("loss", loss);
  graph.SetOutput("gradient", gradients->front());
  return graph;
}

PlanPart Part(const std::string& fields) {
  return ParsePlan("stages { parts { graph: 'train' " + fields + " } }").stages(0).parts(0);
}

Graph Rewritten(const Graph& graph, const std::string& fields) {
  auto rewritten = RewriteGraph(graph, Part(fields));
  EXPECT_TRUE(rewritten.ok()) << rewritten.status();
  return rewritten.ok() ? *std::move(rewritten) : Graph("none");
}

TEST(KeepLogitsTest, TheGradientReadsTheLogits) {
  const Graph graph = Rewritten(TrainingHead(), "logits: KEPT");
  EXPECT_EQ(graph.ToString(), R"(graph train
input %targets: i32[4] batch_dim=0
input %x: f32[4, 3] batch_dim=0
parameter %head.w: f32[5, 3] {constant=1.0}
%head.linear_log_sum_exp.lse: f32[4], %head.linear_log_sum_exp.target_logit: f32[4], %head.linear_log_sum_exp.logits: f32[4, 5] = linear_log_sum_exp(%x, %head.w, %targets) {keep_logits=true}
%head.subtract: f32[4] = subtract(%head.linear_log_sum_exp.lse, %head.linear_log_sum_exp.target_logit)
%head.reduce_sum: f32[] = reduce_sum(%head.subtract) {axes=[0], keep_dims=false}
%head.reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%head.subtract.grad: f32[4] = expand(%head.reduce_sum.grad) {shape=[4]}
%head.linear_log_sum_exp.target_logit.grad: f32[4] = negate(%head.subtract.grad)
%head.linear_log_sum_exp.backward.linear_log_sum_exp_grad.dx: f32[4, 3], %head.w.grad: f32[5, 3] = linear_log_sum_exp_grad(%head.subtract.grad, %head.linear_log_sum_exp.target_logit.grad, %x, %head.w, %targets, %head.linear_log_sum_exp.lse, %head.linear_log_sum_exp.logits) {keep_logits=true}
output loss = %head.reduce_sum
output gradient = %head.w.grad
)");
  const Op& gradient = graph.op(graph.value(graph.FindValue("head.w.grad")).producer);
  EXPECT_EQ(graph.op(gradient.gradient_of).path, "head.linear_log_sum_exp");
  EXPECT_EQ(graph.value(gradient.outputs[1]).complete_gradient_of,
            graph.FindState("head.w")->input);
  EXPECT_FALSE(HasLogitsToKeep(graph)) << "they are kept already";
  EXPECT_EQ(Rewritten(graph, "logits: KEPT").ToString(), graph.ToString());
}

TEST(KeepLogitsTest, RecomputedOrOpenLogitsChangeNothing) {
  const Graph graph = TrainingHead();
  EXPECT_EQ(Rewritten(graph, "logits: RECOMPUTED").ToString(), graph.ToString());
  EXPECT_EQ(Rewritten(graph, "").ToString(), graph.ToString());
}

TEST(KeepLogitsTest, EachMicroBatchKeepsItsOwn) {
  const std::string text = Rewritten(TrainingHead(), "logits: KEPT micro_batches: 2").ToString();
  for (const std::string k : {"@0", "@1"}) {
    EXPECT_THAT(text, HasSubstr("%head.linear_log_sum_exp.logits" + k + ": f32[2, 5] = "));
    EXPECT_THAT(text, HasSubstr("%head.linear_log_sum_exp.logits" + k + ") {keep_logits=true}"));
  }
}

// The recomputed head would compute its logits again in any case.
TEST(KeepLogitsTest, ARecomputedHeadKeepsNone) {
  const std::string text = Rewritten(TrainingHead(), "logits: KEPT recompute: 'head'").ToString();
  EXPECT_EQ(text, Rewritten(TrainingHead(), "recompute: 'head'").ToString());
}

TEST(KeepLogitsTest, EachSliceOfTheWeightHasItsOwn) {
  const std::vector<Graph> graphs = {TrainingHead()};
  const Plan plan = ParsePlan("stages { slice { path: 'head.w' dimension: 0 count: 2 } }");
  const SliceDecisions slices = FindSlices(plan.stages(0), graphs).value();
  const std::string text =
      Rewritten(SliceGraphs(graphs, slices).value()[0], "logits: KEPT").ToString();
  EXPECT_THAT(text, HasSubstr("%head.linear_log_sum_exp[0:3].logits: f32[4, 3] = "));
  EXPECT_THAT(text, HasSubstr("%head.linear_log_sum_exp[0:3].logits) {keep_logits=true}"));
  EXPECT_THAT(text, HasSubstr("%head.linear_log_sum_exp[3:5].logits: f32[4, 2] = "));
  EXPECT_THAT(text, HasSubstr("%head.linear_log_sum_exp[3:5].logits) {keep_logits=true}"));
}

TEST(KeepLogitsTest, APathThatIsTakenGetsASuffix) {
  Graph graph("train");
  Tensor x = graph.Input("x", F32({4, 3}), 0);
  {
    Scope scope(&graph, "linear_log_sum_exp");
    x = graph.Parameter("logits", {4, 3}, Initializer::Constant(1));
  }
  const Tensor w = graph.Parameter("w", {5, 3}, Initializer::Constant(1));
  const Tensor targets = graph.Input("targets", {DType::kI32, {4}}, 0);
  const Tensor loss = ReduceSum(LinearLogSumExp(x, w, targets).lse, {0});
  ASSERT_TRUE(RecordGradients(graph, loss, {w}).ok());
  EXPECT_THAT(Rewritten(graph, "logits: KEPT").ToString(),
              HasSubstr("%linear_log_sum_exp.logits_1: f32[4, 5] = "));
}

TEST(KeepLogitsTest, AGraphWithoutABackwardPassHasNone) {
  Graph graph("train");
  const Tensor x = graph.Input("x", F32({4, 3}), 0), w = graph.Input("w", F32({5, 3}));
  const Tensor targets = graph.Input("targets", {DType::kI32, {4}}, 0);
  graph.SetOutput("lse", LinearLogSumExp(x, w, targets).lse);
  EXPECT_FALSE(HasLogitsToKeep(graph));
  EXPECT_TRUE(HasLogitsToKeep(TrainingHead()));
  EXPECT_EQ(KeepLogits(graph, FindRecomputedOps(graph, {}).value()).ToString(), graph.ToString());
  EXPECT_EQ(CheckPlanPart(graph, Part("logits: KEPT")).message(),
            "logits: KEPT, but graph 'train' has no backward pass that reads logits; leave out the "
            "field");
  EXPECT_TRUE(CheckPlanPart(graph, Part("logits: RECOMPUTED")).ok());
  EXPECT_TRUE(CheckPlanPart(TrainingHead(), Part("logits: KEPT")).ok());
}

}  // namespace
}  // namespace tessera
