// Compares what osdp chooses with the best of all choices, each of them lowered.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "core/cost/cluster.h"
#include "core/graph/graph.h"
#include "gtest/gtest.h"
#include "models/vgg/vgg.h"
#include "tests/strategies/osdp_fixture.h"

namespace tessera {
namespace {

constexpr int kBlocks = 4;

// Lowers all Plans in which each group is replicated, gathered for each pass, or gathered once.
std::vector<StepCost> LowerAll(const PlannedRun& run) {
  std::vector<std::string> groups;
  for (int i = 0; i < kBlocks; ++i) groups.push_back("blocks." + std::to_string(i));
  groups.emplace_back("wte|wpe|ln_f");
  std::vector<StepCost> costs;
  std::vector<int> modes(groups.size(), 0);
  for (;;) {
    Plan plan;
    plan.set_format(2);
    Stage& stage = *plan.add_stages();
    stage.add_mesh()->set_name("data");
    StoreChoice& inputs = *stage.add_store();
    inputs.set_path("tokens|targets");
    inputs.set_layout("data: S(0)");
    for (size_t i = 0; i < groups.size(); ++i) {
      if (modes[i] == 0) continue;
      GroupChoice& group = *stage.add_group();
      group.set_path(groups[i]);
      group.add_over("data");
      group.set_gather(modes[i] == 1 ? GroupChoice::EACH_PHASE : GroupChoice::ONCE);
      group.set_reduce(GroupChoice::EACH_MICRO_BATCH);
    }
    if (absl::c_linear_search(modes, 0)) stage.add_pass()->mutable_bucket_gradients();
    if (stage.group_size() > 0) {
      stage.add_pass()->mutable_prefetch_gathers()->set_distance(1);
      stage.add_pass()->mutable_limit_gathers()->set_in_flight(2);
    }
    costs.push_back(run.Lower(plan));
    size_t i = 0;
    while (i < modes.size() && ++modes[i] == 3) modes[i++] = 0;
    if (i == modes.size()) return costs;
  }
}

PlannedRun NormalizedVgg(int64_t groups) {
  VggConfig model;
  model.set_height(16);
  model.set_width(16);
  model.set_channels(3);
  for (const int64_t channels : {32, 0, 64, 0, 64, 0}) model.add_layers(channels);
  model.add_hidden(64);
  model.set_classes(10);
  model.set_batch_norm(true);
  model.set_batch_norm_groups(groups);
  return PlannedRun({.model = *CreateVgg(model), .config = TinyRun(32), .ranks = 2});
}

PlannedRun Vgg16(int ranks) {
  VggConfig model;
  model.set_height(224);
  model.set_width(224);
  model.set_channels(3);
  for (const int64_t channels :
       {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0}) {
    model.add_layers(channels);
  }
  for (int i = 0; i < 2; ++i) model.add_hidden(4096);
  model.set_classes(1000);
  RunConfig config = TinyRun(16);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_momentum(0.9);
  const auto cluster = ReadCluster("docs/clusters/ethernet_10g.textproto");
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return PlannedRun(
      {.model = *CreateVgg(model), .config = config, .ranks = ranks, .cluster = *cluster});
}

// Returns the bytes of the units of each choice, whose names begin with `prefix`.
std::map<std::string, int64_t> BytesByChoice(const PlannedRun& run,
                                             const strategy::Explanation& explanation,
                                             const std::string& prefix) {
  std::map<std::string, int64_t> bytes;
  for (const auto& decision : explanation.decisions()) {
    if (!absl::StartsWith(decision.subject(), prefix)) continue;
    for (const State& state : run.graphs().front().states()) {
      if (state.role != Role::kParameter || !InScope(state.path, decision.subject())) continue;
      bytes[decision.choice()] += 4 * NumElements(state.type.shape);
    }
  }
  return bytes;
}

// Its flat layers have nine tenths of the parameters, and its convolutions nearly all of the work.
TEST(OsdpTest, OfVgg16TheFlatLayersAreSharded) {
  for (const int ranks : {4, 8}) {
    SCOPED_TRACE(ranks);
    const PlannedRun run = Vgg16(ranks);
    const std::vector<PlannedStep> baselines = run.Baselines();
    const int64_t replicated = baselines[0].cost.peak_bytes();
    const int64_t sharded = baselines[1].cost.peak_bytes();
    const auto chosen = run.Ask({.limit_bytes = (replicated + sharded) / 2});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    for (const PlannedStep& baseline : baselines) {
      EXPECT_LT(chosen->cost.step_seconds(), baseline.cost.step_seconds()) << baseline.name;
    }
    int64_t kept = 0, convolutions = 0;
    for (const auto& [choice, bytes] : BytesByChoice(run, chosen->explanation, "features.")) {
      if (choice == "replicated") kept += bytes;
      convolutions += bytes;
    }
    EXPECT_EQ(convolutions, 4 * 14'714'688);
    EXPECT_GT(kept, convolutions / 10 * 9);
    int64_t split = 0;
    for (const auto& [choice, bytes] : BytesByChoice(run, chosen->explanation, "hidden.")) {
      if (absl::StartsWith(choice, "sharded")) split += bytes;
    }
    EXPECT_GE(split, 4 * 102'764'544);  // at least the first of them
  }
}

// Some numbers of micro-batches cannot be run, whether or not they can for a smaller batch.
TEST(OsdpTest, MicroBatchesCutNoGroupsOfBatchNorm) {
  for (const int64_t groups : {1, 2, 4}) {
    SCOPED_TRACE(groups);
    const PlannedRun run = NormalizedVgg(groups);
    const std::vector<strategy::PlanRequest::Setting> open = {strategy::PlanRequest::MICRO_BATCHES,
                                                              strategy::PlanRequest::RECOMPUTE};
    const auto unlimited = run.Ask({.open = open});
    ASSERT_TRUE(unlimited.ok()) << unlimited.status();
    const int64_t smallest = SmallestLimit(run, open);
    EXPECT_LT(smallest, unlimited->cost.peak_bytes());
    for (const int64_t limit : LimitsBetween(smallest, unlimited->cost.peak_bytes(), 4)) {
      const auto chosen = run.Ask({.limit_bytes = limit, .open = open});
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      EXPECT_LE(chosen->cost.peak_bytes(), limit);
      EXPECT_EQ(groups % std::max<int64_t>(MicroBatches(chosen->plan), 1), 0);
    }
  }
}

TEST(OsdpTest, IsAsFastAsTheBestChoice) {
  const PlannedRun run(SetupOf(TinyGpt(kBlocks)));
  const std::vector<StepCost> choices = LowerAll(run);
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  for (const StepCost& choice : choices) {
    least = std::min(least, choice.peak_bytes());
    most = std::max(most, choice.peak_bytes());
  }
  constexpr int kLimits = 11;
  double mean = 0;  // of the bounds, as shares of the times
  for (const int64_t limit : LimitsBetween(least, most, kLimits)) {
    double best = std::numeric_limits<double>::infinity();
    for (const StepCost& choice : choices) {
      if (choice.peak_bytes() <= limit) best = std::min(best, choice.step_seconds());
    }
    const auto chosen = run.Ask({.limit_bytes = limit});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const double seconds = chosen->cost.step_seconds();
    const double bound = chosen->explanation.bound_seconds();
    EXPECT_LE(chosen->cost.peak_bytes(), limit);
    EXPECT_LE(seconds, 1.005 * best) << "at " << limit << " bytes";
    EXPECT_LE(bound, std::min(best, seconds)) << "at " << limit << " bytes";
    EXPECT_GE(bound, 0.7 * seconds) << "at " << limit << " bytes";
    mean += bound / seconds / kLimits;
  }
  EXPECT_GE(mean, 0.75);
  // Where the limit is too small, the smallest one that can be met is named.
  const int64_t smallest = SmallestLimit(run);
  EXPECT_LE(smallest, least);
  EXPECT_TRUE(run.Ask({.limit_bytes = smallest}).ok());
  EXPECT_FALSE(run.Ask({.limit_bytes = smallest - 1}).ok());
}

}  // namespace
}  // namespace tessera
