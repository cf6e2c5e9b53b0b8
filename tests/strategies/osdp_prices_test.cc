// Tests that osdp's decisions follow the prices of kernels and of the network.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/compile/compile.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/prices/collective_curves.h"
#include "core/cost/prices/measured_prices.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/program/program.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/strategies/osdp_fixture.h"

namespace tessera {
namespace {

using strategy::PlanRequest;

// Returns a price list in which an operator's kernels take ten times what the rates of the cluster
// say, for the requests of a Plan's Programs; other sizes are interpolated.
std::shared_ptr<const MeasuredPrices> TenTimes(const std::string& op, const PlannedRun& run,
                                               const Plan& plan) {
  const auto compiled = CompileRun(run.graphs(), plan, run.catalogue(), run.setup().ranks);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  auto prices = std::make_shared<MeasuredPrices>();
  for (const Program& program : compiled->programs) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.kind != InstructionKind::kKernel || instruction.kernel == kNone) continue;
      const PlannedKernel& kernel = program.KernelOf(instruction);
      if (kernel.request.op != op) continue;
      const double seconds =
          ComputationSeconds(op, instruction.cost, DType::kF32, run.setup().cluster);
      prices->kernels.Add(kernel, /*ranks=*/1, instruction.cost, DType::kF32, 10 * seconds);
    }
  }
  EXPECT_FALSE(prices->empty()) << "no kernel computes " << op;
  return prices;
}

// Compares what is planned at the cluster's rates with what is planned if products take ten times
// as long, which makes recomputation dear. Returns at how many of the limits, of `count` in equal
// steps, less is recomputed.
int ExpectRecomputedLess(const PlanningSetup& setup, int count, const std::vector<int>& limits) {
  const PlannedRun described(setup);
  const std::vector<PlannedStep> baselines = described.Baselines();
  PlanningSetup dearer = setup;
  dearer.prices = TenTimes("matmul", described, baselines[0].plan);
  const PlannedRun dear(dearer);
  const std::vector<PlanRequest::Setting> open = {PlanRequest::RECOMPUTE};
  const std::vector<int64_t> all =
      LimitsBetween(SmallestLimit(described, open), baselines[0].cost.peak_bytes(), count);
  int fewer = 0;
  for (const int i : limits) {
    SCOPED_TRACE(absl::StrCat("at ", all[i], " bytes"));
    const auto at_rates = described.Ask({.limit_bytes = all[i], .open = open});
    const auto at_dear = dear.Ask({.limit_bytes = all[i], .open = open});
    EXPECT_TRUE(at_rates.ok() && at_dear.ok()) << at_rates.status() << at_dear.status();
    if (!at_rates.ok() || !at_dear.ok()) continue;
    // Each Plan is the faster one at its own prices.
    EXPECT_LE(at_dear->cost.step_seconds(), 1.001 * dear.Lower(at_rates->plan).step_seconds());
    EXPECT_LE(at_rates->cost.step_seconds(), 1.001 * described.Lower(at_dear->plan).step_seconds());
    EXPECT_LE(RecomputedBlocks(at_dear->plan), RecomputedBlocks(at_rates->plan));
    fewer += RecomputedBlocks(at_dear->plan) < RecomputedBlocks(at_rates->plan) ? 1 : 0;
  }
  return fewer;
}

TEST(OsdpPricesTest, DearKernelsAreRecomputedLess) {
  PlanningSetup setup = SetupOf(TinyGpt(3));
  Link& link = *setup.cluster.mutable_between_hosts();
  link.set_bytes_per_second(10 * link.bytes_per_second());
  EXPECT_GT(ExpectRecomputedLess(setup, 13, {0, 3, 5, 6, 7, 9}), 0);
}

// The fastest of the Plans that the search begins with was not improved: it took 22 % longer than a
// Plan that was known at other prices.
TEST(OsdpPricesTest, AUniformPlanIsImprovedToo) {
  EXPECT_GT(ExpectRecomputedLess(SetupOf(TinyGpt(3)), 5, {1, 2, 3}), 0);
}

// Under a hundredth of the bandwidth, what is sent decides.
TEST(OsdpPricesTest, ASlowNetworkIsUsedTheLeast) {
  PlanningSetup setup = SetupOf(TinyGpt(3));
  const PlannedRun usual(setup);
  Link& link = *setup.cluster.mutable_between_hosts();
  link.set_bytes_per_second(link.bytes_per_second() / 100);
  const PlannedRun slow(setup);
  const std::vector<PlannedStep> baselines = slow.Baselines();
  const int64_t ddp_bytes = baselines[0].cost.peak_bytes();
  const auto roomy = slow.Ask({.limit_bytes = ddp_bytes});
  ASSERT_TRUE(roomy.ok()) << roomy.status();
  for (const PlannedStep& other : baselines) {
    EXPECT_LE(SentBytes(roomy->cost), SentBytes(other.cost)) << other.name;
  }
  for (const int64_t limit : LimitsBetween(SmallestLimit(slow), ddp_bytes, 4)) {
    const auto chosen = slow.Ask({.limit_bytes = limit});
    const auto usually = usual.Ask({.limit_bytes = limit});
    ASSERT_TRUE(chosen.ok() && usually.ok()) << chosen.status() << usually.status();
    if (const PlannedStep* const fastest = FastestWithin(limit, baselines)) {
      EXPECT_LE(chosen->cost.step_seconds(), 1.001 * fastest->cost.step_seconds())
          << fastest->name << " at " << limit;
    }
    EXPECT_LE(SentBytes(chosen->cost), 1.001 * SentBytes(usually->cost)) << limit;
    EXPECT_LE(chosen->cost.step_seconds(), 1.001 * slow.Lower(usually->plan).step_seconds());
  }
}

// Returns prices of collectives as measurements are: each size and operation differs from what the
// cluster says by a factor of its own.
std::shared_ptr<const MeasuredPrices> UnevenCollectives(const PlanningSetup& setup, uint32_t seed) {
  std::mt19937 random(seed);
  const GroupSite site = SiteOnCluster(setup.cluster, setup.ranks);
  auto prices = std::make_shared<MeasuredPrices>();
  for (const auto& [operation, reduction] :
       {std::pair(CollectiveOperation::kAllGather, Reduction::kSum),
        std::pair(CollectiveOperation::kReduceScatter, Reduction::kSum),
        std::pair(CollectiveOperation::kAllReduce, Reduction::kSum)}) {
    const std::string name =
        CurveName(operation, DType::kF32, reduction, site, {1, 1, setup.cluster.network()});
    const double passes = operation == CollectiveOperation::kAllReduce ? 2 : 1;
    for (int64_t bytes = 1 << 12; bytes <= 1 << 26; bytes *= 4) {
      const double sent = passes * static_cast<double>(bytes) / setup.ranks;
      const Link& link = setup.cluster.between_hosts();
      const double seconds = link.latency_seconds() + sent / link.bytes_per_second();
      const double factor = std::uniform_real_distribution<double>(0.6, 1.6)(random);
      prices->collectives.Add(name, bytes, {factor * seconds, factor * seconds, 0});
    }
  }
  return prices;
}

// Where memory was enough, changes of several choices were not tried, so that a Plan within less
// memory, or one of fsdp, was faster by up to 2.6 %. And all changes of ddp's Plan were slower than
// it, so that the others, which are up to 4 % faster, were not reached.
TEST(OsdpPricesTest, UnevenCollectives) {
  GptConfig sizes = TinyGpt(4);
  sizes.set_channels(256);
  sizes.set_vocabulary(16000);
  sizes.set_context(64);
  for (uint32_t seed = 16; seed < 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    PlanningSetup setup = SetupOf(sizes);
    setup.ranks = 2;
    setup.config.set_batch(8);
    setup.config.set_sequence(64);
    setup.config.mutable_optimizer()->set_clip_norm(1);
    setup.prices = UnevenCollectives(setup, seed);
    const PlannedRun run(setup);
    std::vector<PlannedStep> rivals = run.Baselines();
    const auto optimizer = run.Ask({.strategy = "fsdp", .options = {"shard=optimizer"}});
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    rivals.push_back(*optimizer);
    const int64_t most = rivals[0].cost.peak_bytes();
    double smaller = std::numeric_limits<double>::infinity();
    for (const int64_t limit : {most - most / 25, most, 2 * most}) {
      const auto chosen = run.Ask({.limit_bytes = limit});
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      const double seconds = chosen->cost.step_seconds();
      EXPECT_LE(seconds, 1.01 * smaller) << "at " << limit;
      const PlannedStep* const fastest = FastestWithin(limit, rivals);
      EXPECT_LE(seconds, 1.0001 * fastest->cost.step_seconds()) << fastest->name << " at " << limit;
      smaller = std::min(smaller, seconds);
    }
  }
}

// Returns the Plan in which block `i` has what block `to[i]` had.
Plan Relabelled(const Plan& plan, const std::vector<int>& to) {
  std::string text;
  EXPECT_TRUE(google::protobuf::TextFormat::PrintToString(plan, &text));
  std::vector<std::pair<std::string, std::string>> names;
  for (size_t i = 0; i < to.size(); ++i) {
    for (const char* const end : {".", "\"", "|"}) {
      names.emplace_back(absl::StrCat("blocks.", i, end), absl::StrCat("blocks.", to[i], end));
    }
  }
  Plan relabelled;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(absl::StrReplaceAll(text, names), &relabelled));
  return relabelled;
}

TEST(OsdpPricesTest, EqualBlocksCostTheSame) {
  const PlannedRun run(SetupOf(TinyGpt(5)));
  const auto graphs = run.context().Graphs({});
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  for (const auto& blocks : graphs->blocks()) {
    const std::set<std::string> different(blocks.fingerprints().begin(),
                                          blocks.fingerprints().end());
    EXPECT_LE(different.size(), 1);
  }
  const int64_t most = run.Baselines()[0].cost.peak_bytes();
  int differ = 0;
  for (const int64_t limit : LimitsBetween(SmallestLimit(run), most, 3)) {
    const auto chosen = run.Ask({.limit_bytes = limit});
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    // The first and the last block stay: their gathers are at the ends of a pass.
    std::vector<int> order = {0, 1, 2, 3, 4};
    while (std::next_permutation(order.begin() + 1, order.end() - 1)) {
      const Plan relabelled = Relabelled(chosen->plan, order);
      differ += relabelled.SerializeAsString() != chosen->plan.SerializeAsString() ? 1 : 0;
      const StepCost cost = run.Lower(relabelled);
      EXPECT_EQ(SentBytes(cost), SentBytes(chosen->cost));
      // Where the slices of a block are gathered depends on the blocks beside it.
      const bool sliced = relabelled.stages(0).slice_size() > 0;
      EXPECT_NEAR(cost.step_seconds(), chosen->cost.step_seconds(),
                  (sliced ? 0.01 : 0.005) * cost.step_seconds())
          << limit;
      EXPECT_NEAR(cost.peak_bytes(), chosen->cost.peak_bytes(),
                  (sliced ? 0.005 : 0.001) * cost.peak_bytes())
          << limit;
      // And the one that was chosen is the fastest of those that fit.
      if (cost.peak_bytes() <= limit) {
        EXPECT_LE(chosen->cost.step_seconds(), 1.001 * cost.step_seconds()) << limit;
      }
    }
  }
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace tessera
