// Compares what osdp chooses with the best of all choices, each of them lowered.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "core/cost/cluster.h"
#include "core/kernels/cpu/backend.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

constexpr int kBlocks = 4, kRanks = 4;

struct Choice {
  int64_t peak_bytes = 0;
  double seconds = 0;
  double bound_seconds = 0;  // that the strategy states
};

// A GPT, as it is planned for hosts of one processor with a slow network.
class OsdpTest : public testing::Test {
 protected:
  OsdpTest() : backend_(MakeCpuBackend(1)) {
    const auto cluster = ReadCluster("docs/clusters/ethernet_1g.textproto");
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    GptConfig sizes;
    sizes.set_layers(kBlocks);
    sizes.set_heads(2);
    sizes.set_channels(64);
    sizes.set_vocabulary(300);
    sizes.set_context(32);
    RunConfig config;
    config.set_batch(32);
    config.set_sequence(32);
    config.mutable_optimizer()->set_kind("adamw");
    auto model = CreateGpt(sizes);
    EXPECT_TRUE(model.ok()) << model.status();
    auto graphs = RecordRun(**model, config, RunGraphs::kAll);
    EXPECT_TRUE(graphs.ok()) << graphs.status();
    context_ = std::make_shared<const PlanningContext>(
        *std::move(graphs), PlanningFor{.catalogue = backend_.get(),
                                        .ranks = kRanks,
                                        .cluster = *cluster,
                                        .site = SiteOnCluster(*cluster, kRanks)});
  }

  Choice Lower(const Plan& plan) const {
    strategy::LowerPlans request;
    *request.add_plans() = plan;
    const strategy::LoweredPlans lowered = context_->Lower(request);
    EXPECT_EQ(lowered.plans(0).error(), "");
    return {lowered.plans(0).cost().peak_bytes(), lowered.plans(0).cost().step_seconds()};
  }

  // Lowers all Plans in which each group is replicated, gathered for each pass, or gathered once.
  std::vector<Choice> LowerAll() const {
    std::vector<std::string> groups;
    for (int i = 0; i < kBlocks; ++i) groups.push_back("blocks." + std::to_string(i));
    groups.emplace_back("wte|wpe|ln_f");
    std::vector<Choice> choices;
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
      choices.push_back(Lower(plan));
      size_t i = 0;
      while (i < modes.size() && ++modes[i] == 3) modes[i++] = 0;
      if (i == modes.size()) return choices;
    }
  }

  absl::StatusOr<Choice> Choose(int64_t limit) const {
    const auto plugin = Plugin::Load("strategies/osdp/osdp.so");
    EXPECT_TRUE(plugin.ok()) << plugin.status();
    strategy::PlanRequest request;
    request.set_ranks(kRanks);
    request.set_micro_batches(1);
    *request.mutable_cluster() = context_->planned_for().cluster;
    request.set_memory_limit_bytes(limit);
    auto made = PlanWith(*plugin, request, context_, {});
    if (!made.ok()) return made.status();
    Choice choice = Lower(made->plan);
    choice.bound_seconds = made->explanation.bound_seconds();
    return choice;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const PlanningContext> context_;
};

TEST_F(OsdpTest, IsAsFastAsTheBestChoice) {
  const std::vector<Choice> choices = LowerAll();
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  for (const Choice& choice : choices) {
    least = std::min(least, choice.peak_bytes);
    most = std::max(most, choice.peak_bytes);
  }
  for (int i = 0; i <= 10; ++i) {
    const int64_t limit = least + (most - least) / 10 * i;
    double best = std::numeric_limits<double>::infinity();
    for (const Choice& choice : choices) {
      if (choice.peak_bytes <= limit) best = std::min(best, choice.seconds);
    }
    const auto chosen = Choose(limit);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_LE(chosen->peak_bytes, limit);
    EXPECT_LE(chosen->seconds, 1.005 * best) << "at " << limit << " bytes";
    EXPECT_LE(chosen->bound_seconds, std::min(best, chosen->seconds)) << "at " << limit << " bytes";
    EXPECT_GE(chosen->bound_seconds, 0.75 * chosen->seconds) << "at " << limit << " bytes";
  }
  // Where the limit is too small, the smallest one that can be met is named.
  const auto refused = Choose(1);
  ASSERT_FALSE(refused.ok());
  int64_t smallest = 0;
  const std::string message(refused.status().message());
  ASSERT_TRUE(absl::SimpleAtoi(message.substr(message.rfind(' ') + 1), &smallest)) << message;
  EXPECT_LE(smallest, least);
  EXPECT_TRUE(Choose(smallest).ok());
  EXPECT_FALSE(Choose(smallest - 1).ok());
}

}  // namespace
}  // namespace tessera
