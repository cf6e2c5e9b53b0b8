// The Plans that osdp makes under tight limits train as one process does, within the limit.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"
#include "tests/strategies/osdp_fixture.h"

namespace tessera {
namespace {

using strategy::PlanRequest;

constexpr int kBlocks = 2;

// Returns how many blocks have parameters that are sharded.
int ShardedBlocks(const Plan& plan) {
  int blocks = 0;
  for (int i = 0; i < kBlocks; ++i) {
    const std::string name = absl::StrCat("blocks.", i, ".");
    const auto& groups = plan.stages(0).group();
    blocks += std::any_of(groups.begin(), groups.end(), [&](const GroupChoice& group) {
      return absl::StrContains(group.path(), name);
    });
  }
  return blocks;
}

// Returns what is special about a Plan.
std::set<std::string> FeaturesOf(const Plan& plan) {
  std::set<std::string> features;
  const int sharded = ShardedBlocks(plan);
  if (sharded > 0 && sharded < kBlocks) features.insert("mixed");
  if (plan.stages(0).slice_size() > 0) features.insert("sliced");
  if (RecomputedBlocks(plan) > 0) features.insert("recomputed");
  if (MicroBatches(plan) > 1) features.insert("micro-batched");
  return features;
}

TEST(OsdpTrainingTest, PlansUnderTightLimits) {
  PlanningSetup setup = SetupOf(TinyGpt(kBlocks));
  setup.ranks = 2;
  setup.config.set_batch(8);
  setup.config.mutable_optimizer()->set_kind("sgd");
  setup.config.mutable_optimizer()->set_lr(0.1);
  const PlannedRun planned(setup);
  TrainingRun with_gradients = RecordTraining(setup.model, setup.config);
  with_gradients.steps = 2;
  with_gradients.backend = [] { return MakeCpuBackend(1); };
  // The Graphs that were planned: gradients that are outputs would need memory.
  TrainingRun run = with_gradients;
  run.graphs = planned.graphs();
  const auto alone = Train(with_gradients, Plan(), 1);
  const auto alone_without = Train(run, Plan(), 1);
  ASSERT_TRUE(alone.ok() && alone_without.ok()) << alone.status() << alone_without.status();
  const auto ddp = planned.Ask({.strategy = "ddp"});
  ASSERT_TRUE(ddp.ok()) << ddp.status();

  std::set<std::string> features;
  for (const std::vector<PlanRequest::Setting>& open :
       {std::vector<PlanRequest::Setting>{}, {PlanRequest::RECOMPUTE}, {PlanRequest::MICRO_BATCHES},
        {PlanRequest::MICRO_BATCHES, PlanRequest::RECOMPUTE}}) {
    const int64_t least = SmallestLimit(planned, open), most = ddp->cost.peak_bytes();
    for (const int64_t limit : LimitsBetween(least, most, 3)) {
      const auto chosen = planned.Ask({.limit_bytes = limit, .open = open});
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      SCOPED_TRACE(absl::StrCat("at ", limit, " bytes: ", chosen->plan.ShortDebugString()));
      features.merge(FeaturesOf(chosen->plan));
      const auto trained = Train(run, chosen->plan, setup.ranks);
      ASSERT_TRUE(trained.ok()) << trained.status();
      EXPECT_EQ(trained->peak_bytes, chosen->cost.peak_bytes());
      EXPECT_LE(trained->peak_bytes, limit);
      Difference difference = Compare(*alone_without, *trained);
      EXPECT_LE(difference.relative, kCpuTolerance) << difference.where;
      const auto gradients = Train(with_gradients, chosen->plan, setup.ranks);
      ASSERT_TRUE(gradients.ok()) << gradients.status();
      difference = Compare(*alone, *gradients);
      EXPECT_LE(difference.relative, kCpuTolerance) << difference.where;
    }
  }
  EXPECT_EQ(features,
            (std::set<std::string>{"micro-batched", "mixed", "recomputed", "sliced"}));
}

}  // namespace
}  // namespace tessera
