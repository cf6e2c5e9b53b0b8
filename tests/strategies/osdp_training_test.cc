// The Plans that osdp makes under tight limits train as one process does, within the limit.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
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
  const int64_t micro_batches = MicroBatches(plan);
  if (micro_batches > 1) features.insert(absl::StrCat(micro_batches, " micro-batches"));
  return features;
}

// Returns whether sums are added in the order of ddp: sharding, gathering and recomputing keep it,
// but for the norm of all gradients; slices and micro-batches do not.
bool AddsInTheSameOrder(const Plan& plan) {
  return plan.stages(0).slice_size() == 0 && MicroBatches(plan) <= 1;
}

// Trains two steps under Plans for two limits, and compares them with those of one process, and
// with those of ddp, which have the same bits if no order of addition changes. Returns what is
// special about these Plans.
std::set<std::string> TrainWithin(int batch, const std::vector<PlanRequest::Setting>& open) {
  PlanningSetup setup = SetupOf(TinyGpt(kBlocks));
  setup.ranks = 2;
  setup.config.set_batch(batch);
  setup.config.mutable_optimizer()->set_kind("sgd");
  setup.config.mutable_optimizer()->set_lr(0.1);
  const PlannedRun planned(setup);
  TrainingRun with_gradients = RecordTraining(setup.model, setup.config);
  with_gradients.steps = 2;
  with_gradients.backend = [] { return MakeCpuBackend(1); };
  // The Graphs that were planned, in which gradients are no outputs, which would need memory.
  TrainingRun as_planned = with_gradients;
  as_planned.graphs = planned.graphs();
  const auto ddp = planned.Ask({.strategy = "ddp"});
  EXPECT_TRUE(ddp.ok()) << ddp.status();
  if (!ddp.ok()) return {};
  const int64_t least = SmallestLimit(planned, open);
  std::set<std::string> features;
  for (const int64_t limit : {least, (least + ddp->cost.peak_bytes()) / 2}) {
    const auto chosen = planned.Ask({.limit_bytes = limit, .open = open});
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    if (!chosen.ok()) continue;
    SCOPED_TRACE(absl::StrCat("at ", limit, " bytes: ", chosen->plan.ShortDebugString()));
    features.merge(FeaturesOf(chosen->plan));
    for (const bool gradients : {false, true}) {
      const TrainingRun& run = gradients ? with_gradients : as_planned;
      const auto alone = Train(run, Plan(), 1);
      auto trained = Train(run, chosen->plan, setup.ranks);
      EXPECT_TRUE(alone.ok() && trained.ok()) << alone.status() << trained.status();
      if (!alone.ok() || !trained.ok()) continue;
      const Difference difference = Compare(*alone, *trained);
      EXPECT_LE(difference.relative, kCpuTolerance) << difference.where;
      if (AddsInTheSameOrder(chosen->plan)) {
        auto replicated = Train(run, ddp->plan, setup.ranks);
        EXPECT_TRUE(replicated.ok()) << replicated.status();
        if (!replicated.ok()) continue;
        // The squares of shards are added rank by rank.
        for (auto* const result : {&*replicated, &*trained}) {
          for (Tensors& outputs : result->outputs) outputs.erase("grad_norm");
        }
        const Difference bits = Compare(*replicated, *trained);
        EXPECT_EQ(bits.relative, 0) << bits.where;
        features.insert("bits of ddp");
      }
      if (!gradients) {
        EXPECT_EQ(trained->peak_bytes, chosen->cost.peak_bytes());
        EXPECT_LE(trained->peak_bytes, limit);
      }
    }
  }
  return features;
}

TEST(OsdpTrainingTest, MixedAndSlicedPlans) {
  EXPECT_EQ(TrainWithin(4, {}), (std::set<std::string>{"bits of ddp", "mixed", "sliced"}));
}

TEST(OsdpTrainingTest, RecomputedPlans) {
  const std::set<std::string> features = TrainWithin(4, {PlanRequest::RECOMPUTE});
  EXPECT_TRUE(features.contains("recomputed"));
  EXPECT_TRUE(features.contains("bits of ddp"));
}

TEST(OsdpTrainingTest, MicroBatchedPlans) {
  EXPECT_TRUE(TrainWithin(8, {PlanRequest::MICRO_BATCHES}).contains("4 micro-batches"));
}

TEST(OsdpTrainingTest, MicroBatchedAndRecomputedPlans) {
  const std::set<std::string> features =
      TrainWithin(4, {PlanRequest::MICRO_BATCHES, PlanRequest::RECOMPUTE});
  EXPECT_TRUE(features.contains("recomputed"));
  EXPECT_TRUE(features.contains("2 micro-batches"));
}

}  // namespace
}  // namespace tessera
