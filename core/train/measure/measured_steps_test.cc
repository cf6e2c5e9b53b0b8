#include "core/train/measure/measured_steps.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/fake/fake.h"
#include "core/cost/cluster.h"
#include "core/cost/step_cost_sums.h"
#include "core/ids/table.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/status/status_macros.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/ranks/ranks.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int kRanks = 3;
constexpr int kSteps = 2;

// The sum of exp(w x) over the rows of x, which are split over the ranks; w is gathered.
Graph MakeGraph() {
  Graph graph("test");
  const Tensor x = graph.Input("x", {DType::kF32, {6, 5}});
  const Tensor w = graph.Parameter("w", {4, 5}, Initializer::Constant(0));
  graph.SetOutput("y", ReduceSum(Exp(MatMul(x, w, false, true)), {0}));
  return graph;
}

Plan MakePlan() {
  Plan plan;
  Stage& stage = *plan.add_stages();
  stage.add_mesh()->set_name("data");
  StoreChoice& store = *stage.add_store();
  store.set_path("x");
  store.set_layout("data: S(0)");
  GroupChoice& group = *stage.add_group();
  group.set_path("w");
  group.add_over("data");
  return plan;
}

// The measured cost of each rank, and the estimate.
struct Measured {
  std::vector<StepCost> sums{kRanks};
  StepCost estimated;
};
Measured Measure() {
  Measured measured;
  const auto statuses = comm::RunFake({.ranks = kRanks}, [&](comm::World& world) -> absl::Status {
    const std::unique_ptr<Backend> backend = MakeReferenceBackend();
    ASSIGN_OR_RETURN(const std::unique_ptr<Ranks> ranks, Ranks::Create(&world));
    ASSIGN_OR_RETURN(CompiledRun run, CompileTogether({MakeGraph()}, MakePlan(), *backend, *ranks));
    if (world.rank() == 0) {
      const GroupSite site = {CollectiveBackend::kShm, std::vector<int>(kRanks, 0)};
      measured.estimated =
          EstimateStep(run.programs[0], ClusterOfMachine("test", MachineRates()), site);
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                     MakeRankEngine(std::move(run), backend.get(), *ranks));
    MeasuredSteps steps(&engine->executor("test"), engine->options().rank.collectives);
    RETURN_IF_ERROR(engine->Run("test"));  // is not measured
    for (int step = 0; step < kSteps; ++step) {
      steps.BeforeStep();
      RETURN_IF_ERROR(engine->executor("test").RunTimed());
      const StepCost cost = steps.AfterStep();
      EXPECT_GT(cost.step_seconds(), 0);
      EXPECT_GE(cost.step_seconds(), cost.computation_seconds() + cost.exposed_seconds() - 1e-9);
    }
    EXPECT_EQ(steps.steps(), kSteps);
    measured.sums[world.rank()] = steps.sums();
    return world.Leave();
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  return measured;
}

TEST(MeasuredStepsTest, WhatIsCountedIsWhatWasEstimated) {
  const Measured measured = Measure();
  ASSERT_EQ(measured.estimated.collectives_size(), 2);
  EXPECT_EQ(NameOf(measured.estimated.collectives(0)), "all-gather along data");
  // 20 elements in 3 parts of 7, in f64, to 2 others.
  EXPECT_EQ(measured.estimated.collectives(0).bytes(), 2 * 7 * 8);
  const StepCost all = MergeRanks(measured.sums);
  const absl::Status same = CompareCollectives(measured.estimated, all, kSteps);
  EXPECT_TRUE(same.ok()) << same;
  const StepCost mean = PerStep(all, kSteps);
  ASSERT_EQ(mean.collectives_size(), 2);
  EXPECT_EQ(mean.collectives(0).calls(), 1);
  EXPECT_EQ(mean.collectives(0).bytes(), 2 * 7 * 8);
  EXPECT_GT(mean.collectives(0).seconds(), 0);
}

TEST(MeasuredStepsTest, ADifferenceIsAnErrorThatNamesBoth) {
  const Measured measured = Measure();
  const StepCost all = MergeRanks(measured.sums);
  StepCost wrong = measured.estimated;
  wrong.mutable_collectives(0)->set_calls(2);
  EXPECT_EQ(CompareCollectives(wrong, all, kSteps).message(),
            "the estimate of a step has 2 calls of all-gather along data and 112 bytes, and in 2 "
            "steps 2 calls and 224 bytes were counted");
  wrong = measured.estimated;
  wrong.mutable_collectives(1)->set_bytes(1);
  EXPECT_FALSE(CompareCollectives(wrong, all, kSteps).ok());
  wrong = measured.estimated;
  wrong.mutable_collectives()->RemoveLast();
  EXPECT_EQ(CompareCollectives(wrong, all, kSteps).message(),
            "the estimate of a step has 0 calls of all-reduce along data and 0 bytes, and in 2 "
            "steps 2 calls and 128 bytes were counted");
}

TEST(MeasuredStepsTest, TimesCountFromTheBeginOfTheStep) {
  const Table<InstructionId, InstructionTime> times = {{1'500'000'000, 2'000'000'000}};
  const Table<InstructionId, TimeSpan> spans = ToTimeSpans(times, 1'000'000'000);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_DOUBLE_EQ(spans.front().begin, 0.5);
  EXPECT_DOUBLE_EQ(spans.front().end, 1);
}

}  // namespace
}  // namespace tessera
