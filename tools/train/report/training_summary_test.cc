#include "tools/train/report/training_summary.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "core/compile/compile.h"
#include "core/ids/table.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"

namespace tessera {
namespace {

TEST(TrainingSummaryTest, StepsAndTheirMean) {
  TrainingSummary summary("token", "byte");
  summary.AddStep(2048, 0.5);
  EXPECT_EQ(summary.Text(2), "1 step, 2.05K tokens in 2.00 s; mean 4.10K tokens/s in steps\n");
  summary.AddStep(2048, 1.5);
  EXPECT_EQ(summary.Text(4), "2 steps, 4.10K tokens in 4.00 s; mean 2.05K tokens/s in steps\n");
}

TEST(TrainingSummaryTest, TheLastEvaluationAndTheBest) {
  TrainingSummary summary("token", "byte");
  summary.AddEvaluation(10, 2.0);
  EXPECT_EQ(summary.Text(1),
            "0 steps, 0 tokens in 1.00 s\neval_loss 2.0000 (2.885 bits per byte) at step 10, the "
            "best\n");
  summary.AddEvaluation(20, 1.0);
  summary.AddEvaluation(30, 1.5);
  EXPECT_EQ(summary.Text(1),
            "0 steps, 0 tokens in 1.00 s\neval_loss 1.5000 (2.164 bits per byte) at step 30; the "
            "best was 1.0000 (1.443 bits per byte) at step 20\n");
}

TEST(TrainingSummaryTest, NotANumberHasNoSign) {
  EXPECT_EQ(LossText(-std::numeric_limits<double>::quiet_NaN(), "byte"), "nan");
}

TEST(TrainingSummaryTest, TimeByOperator) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {2, 3}});
  const Tensor w = graph.Input("w", {DType::kF32, {4, 3}});
  graph.SetOutput("y", Exp(MatMul(x, w, false, true)));
  const auto run = CompileRun({graph}, Plan(), *backend);
  ASSERT_TRUE(run.ok()) << run.status();
  const Table<InstructionId, TimeSpan> times = {{0, 300}, {400, 500}};
  TrainingSummary summary("token", "token");
  summary.AddTimes(run->programs[0], times);
  EXPECT_EQ(summary.Text(1),
            "0 steps, 0 tokens in 1.00 s\ntime by operator: matmul 75.0%, exp 25.0%\n");
}

// Regression: all-reduces that overlapped the backward pass were reported as half of the step.
TEST(TrainingSummaryTest, CommunicationCountsWhereNothingIsComputed) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Graph graph("train");
  graph.SetOutput("y", ReduceSum(graph.Input("x", {DType::kF32, {4}}), {0}));
  Plan plan;
  Stage& stage = *plan.add_stages();
  stage.add_mesh()->set_name("data");
  StoreChoice& store = *stage.add_store();
  store.set_path("x");
  store.set_layout("data: S(0)");
  const auto run = CompileRun({graph}, plan, *backend, 2);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->programs[0].instructions.size(), 2u);
  const auto line = [&](TimeSpan sum, TimeSpan all_reduce) {
    TrainingSummary summary("token", "token");
    summary.AddTimes(run->programs[0], {sum, all_reduce});
    const std::string text = summary.Text(1);
    return text.substr(text.find("time by"));
  };
  EXPECT_EQ(line({0, 100}, {100, 200}), "time by operator: reduce_sum 50.0%, all-reduce 50.0%\n");
  EXPECT_EQ(line({0, 300}, {100, 400}), "time by operator: reduce_sum 75.0%, all-reduce 25.0%\n");
  EXPECT_EQ(line({100, 200}, {0, 400}), "time by operator: all-reduce 75.0%, reduce_sum 25.0%\n");
  EXPECT_EQ(line({0, 100}, {10, 90}), "time by operator: reduce_sum 100.0%, all-reduce 0.0%\n");
}

}  // namespace
}  // namespace tessera
