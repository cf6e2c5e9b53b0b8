// Completing and replaying a Plan.
#include "core/compile/compile.h"

#include <memory>
#include <string>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Graph Record(const std::string& name) {
  Graph graph(name);
  Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  Tensor p = graph.Parameter("p", {3}, Initializer::Constant(1));
  Tensor y = Multiply(x, p);
  graph.SetOutput("y", ReduceSum(name == "train" ? Square(y) : y, {0, 1}));
  return graph;
}

class CompileTest : public ::testing::Test {
 protected:
  std::string Error(const Plan& plan) {
    const auto run = CompileRun({Record("train")}, plan, *backend_);
    EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument) << run.status();
    return std::string(run.status().message());
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

TEST_F(CompileTest, ASavedPlanReplaysForSomeOfItsGraphs) {
  Plan open;
  PlanPart& part = *open.add_stages()->add_parts();
  part.set_graph("train");
  part.set_micro_batches(2);
  const auto all = CompileRun({Record("train"), Record("evaluate")}, open, *backend_);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->plan.stages(0).parts_size(), 2);
  for (const int i : {0, 1}) {
    const auto one = CompileRun({Record(i == 0 ? "train" : "evaluate")}, all->plan, *backend_);
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_THAT(one->notes, IsEmpty());
    ASSERT_EQ(one->plan.stages(0).parts_size(), 1);
    EXPECT_EQ(one->plan.stages(0).parts(0).DebugString(),
              all->plan.stages(0).parts(i).DebugString());
    EXPECT_EQ(one->programs[0].instructions.size(), all->programs[i].instructions.size());
  }
}

// Records the mean cross-entropy of a head; in a training Graph with the gradient of its weight.
Graph RecordHead(const std::string& name) {
  Graph graph(name);
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  const Tensor targets = graph.Input("targets", {DType::kI32, {4}}, 0);
  const Tensor w = graph.Parameter("w", {5, 3}, Initializer::Constant(1));
  const Tensor loss = LinearCrossEntropy(x, w, targets).mean;
  graph.SetOutput("loss", loss);
  if (name != "train") return graph;
  const auto gradients = RecordGradients(graph, loss, {w});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());
  return graph;
}

TEST_F(CompileTest, LogitsAreDecidedWhereABackwardPassReadsThem) {
  const std::vector<Graph> graphs = {RecordHead("train"), RecordHead("evaluate")};
  Plan plan;
  const auto open = CompileRun(graphs, plan, *backend_);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->plan.stages(0).parts(0).logits(), PlanPart::RECOMPUTED);
  EXPECT_EQ(open->plan.stages(0).parts(1).logits(), PlanPart::LOGITS_UNSET);

  PlanPart& part = *plan.add_stages()->add_parts();
  part.set_graph("train");
  part.set_logits(PlanPart::KEPT);
  const auto kept = CompileRun(graphs, plan, *backend_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->plan.stages(0).parts(0).logits(), PlanPart::KEPT);
  EXPECT_THAT(kept->programs[0].ToString(), HasSubstr("%linear_log_sum_exp.logits: f64[4, 5]"));
  EXPECT_THAT(open->programs[0].ToString(), Not(HasSubstr("linear_log_sum_exp.logits")));
  const auto replayed = CompileRun(graphs, kept->plan, *backend_);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->plan.DebugString(), kept->plan.DebugString());

  part.set_graph("evaluate");
  EXPECT_EQ(CompileRun(graphs, plan, *backend_).status().message(),
            "logits: KEPT, but graph 'evaluate' has no backward pass that reads logits; leave out "
            "the field");
}

// Regression: with 512 micro-batches, half of the memory was the operators of rewritten Graphs.
TEST_F(CompileTest, ARunKeepsTheInputsAndStatesOfItsRewrittenGraphs) {
  Plan plan;
  PlanPart& part = *plan.add_stages()->add_parts();
  part.set_graph("train");
  part.set_micro_batches(2);
  const auto run = CompileRun({Record("train")}, plan, *backend_);
  ASSERT_TRUE(run.ok()) << run.status();
  const auto rewritten = RewriteRun({Record("train")}, plan);
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  const Graph &kept = run->graphs[0], &all = rewritten->at(0);
  EXPECT_TRUE(kept.ops().empty());
  EXPECT_NE(all.FindValue("multiply@1"), kNone) << all.ToString();
  ASSERT_EQ(kept.inputs().size(), all.inputs().size());
  for (size_t i = 0; i < all.inputs().size(); ++i) {
    EXPECT_EQ(kept.value(kept.inputs()[i].value).path, all.value(all.inputs()[i].value).path);
    EXPECT_EQ(kept.inputs()[i].origin, all.inputs()[i].origin);
    EXPECT_EQ(kept.inputs()[i].batch_dim, all.inputs()[i].batch_dim);
  }
  ASSERT_EQ(kept.states().size(), all.states().size());
  for (const State& state : all.states()) {
    ASSERT_NE(kept.FindState(state.path), nullptr);
    EXPECT_EQ(kept.FindState(state.path)->type, state.type);
  }
}

// The paths are those of other values: an activation is named as if it were the gradient of p.
TEST_F(CompileTest, GradientsAreKnownByWhatTheyAreGradientsOf) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  const Tensor p = graph.Parameter("p", {3}, Initializer::Constant(1));
  Tensor misnamed;
  {
    Scope scope(&graph, "p");
    misnamed = graph.Record1(*FindOperator("square"), {x}, {}, "grad");
  }
  const Tensor loss = ReduceSum(Multiply(misnamed, p), {0, 1});
  const auto gradients = RecordGradients(graph, loss, {p});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());
  for (const int64_t micro_batches : {1, 2}) {
    Plan plan;
    PlanPart& part = *plan.add_stages()->add_parts();
    part.set_graph("train");
    part.set_micro_batches(micro_batches);
    const auto run = CompileRun({graph}, plan, *backend_);
    ASSERT_TRUE(run.ok()) << run.status();
    const Program& program = run->programs[0];
    const std::string name = micro_batches == 1 ? "p.grad" : "p.grad@0";
    int found = 0;
    for (const InstructionId i : program.instructions.ids()) {
      for (const ProgramValueId id : program.instructions[i].outputs) {
        const ProgramValue& value = program.value(id);
        const Category category = program.buffers[value.buffer].CategoryAt(i.index());
        if (value.path == name) {
          ++found;
          EXPECT_EQ(CategoryName(category), "activations");
        } else if (id == program.outputs[0].value) {
          ++found;
          EXPECT_EQ(CategoryName(category), "gradients");
        }
      }
    }
    EXPECT_EQ(found, 2) << program.ToString();
  }
}

// The buffer of an activation that a gradient overwrites counted as gradients all the time.
TEST_F(CompileTest, AReusedBufferCountsAsWhatItHolds) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {3}}, 0);
  const Tensor p = graph.Parameter("p", {3}, Initializer::Constant(1));
  const auto gradients = RecordGradients(graph, ReduceSum(Multiply(Exp(x), p), {0}), {p});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());
  const auto run = CompileRun({graph}, Plan(), *backend_);
  ASSERT_TRUE(run.ok()) << run.status();
  const Program& program = run->programs[0];
  InstructionId made, overwritten;
  BufferId activation, gradient;
  for (const InstructionId i : program.instructions.ids()) {
    const ProgramValue& value = program.value(program.instructions[i].outputs[0]);
    if (value.path == "exp") {
      made = i;
      activation = value.buffer;
    } else if (value.path == "p.grad") {
      overwritten = i;
      gradient = value.buffer;
    }
  }
  ASSERT_NE(made, kNone) << program.ToString();
  ASSERT_EQ(activation, gradient) << program.ToString();
  EXPECT_EQ(CategoryName(program.buffers[activation].CategoryAt(made.index())), "activations");
  EXPECT_EQ(CategoryName(program.buffers[activation].CategoryAt(overwritten.index())), "gradients");
}

// They were ignored without a note.
TEST_F(CompileTest, HandWrittenPartsForOtherGraphsAreNamedInANote) {
  Plan plan;
  Stage& stage = *plan.add_stages();
  for (const char* graph : {"trian", "evaluate", "generate"}) stage.add_parts()->set_graph(graph);
  const auto run = CompileRun({Record("train"), Record("evaluate")}, plan, *backend_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->notes,
              ElementsAre("the plan has parts for graphs that this run does not have, which are "
                          "not used: 'trian', 'generate'; the run has "
                          "train, evaluate"));
}

TEST_F(CompileTest, ACompletedPlanIsCompleteAgain) {
  const auto first = CompileRun({Record("train")}, Plan(), *backend_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = CompileRun({Record("train")}, first->plan, *backend_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->plan.DebugString(), first->plan.DebugString());
}

TEST_F(CompileTest, RefusesAPlanOfAnotherFormatOrGraph) {
  Plan plan;
  plan.set_format(99);
  EXPECT_EQ(Error(plan),
            "the Plan has format 99; this version reads format 2, which docs/plans.md describes");
  plan.set_format(2);
  PlanPart& part = *plan.add_stages()->add_parts();
  part.set_graph("train");
  part.set_fingerprint(Record("evaluate").Fingerprint());
  EXPECT_THAT(Error(plan), HasSubstr("the Plan was made for another graph 'train'"));
}

}  // namespace
}  // namespace tessera
