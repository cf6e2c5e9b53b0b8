// The services that strategies search with, on a model that is used: a small GPT.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/cost/cluster.h"
#include "core/kernels/cpu/backend.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

constexpr int kBlocks = 3, kRanks = 2;

constexpr char kOpen[] = R"pb(
  format: 2
  stages {
    mesh { name: "data" }
    store { path: "tokens|targets" layout: "data: S(0)" }
  })pb";
constexpr char kRewritten[] = R"pb(
  format: 2
  stages {
    mesh { name: "data" }
    store { path: "tokens|targets" layout: "data: S(0)" }
    slice { path: "blocks.1.mlp.fc.weight" dimension: 0 count: 2 }
    parts { graph: "train" micro_batches: 2 recompute: "blocks.0" }
  })pb";

Plan PlanOf(const std::string& text) {
  Plan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan)) << text;
  return plan;
}

class ServicesTest : public testing::Test {
 protected:
  ServicesTest() : backend_(MakeCpuBackend(1)) {
    const auto cluster = ReadCluster("docs/clusters/ethernet_1g.textproto");
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    GptConfig sizes;
    sizes.set_layers(kBlocks);
    sizes.set_heads(2);
    sizes.set_channels(64);
    sizes.set_vocabulary(300);
    sizes.set_context(32);
    RunConfig config;
    config.set_batch(8);
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

  strategy::LoweredPlans::Lowered Lower(const std::string& plan, bool sections) const {
    strategy::LowerPlans request;
    *request.add_plans() = PlanOf(plan);
    request.set_sections(sections);
    const strategy::LoweredPlans lowered = context_->Lower(request);
    EXPECT_EQ(lowered.plans(0).error(), "");
    return lowered.plans(0);
  }

  const std::unique_ptr<Backend> backend_;
  std::shared_ptr<const PlanningContext> context_;
};

TEST_F(ServicesTest, SectionsAddUpToTheStep) {
  EXPECT_EQ(Lower(kOpen, false).sections_size(), 0);
  const strategy::LoweredPlans::Lowered lowered = Lower(kOpen, true);
  double computation = 0, end = 0;
  int64_t peak = 0, in_use = 0;
  std::vector<int> forward, backward;
  for (const auto& section : lowered.sections()) {
    computation += section.computation_seconds();
    EXPECT_GE(section.begin_seconds(), end);
    EXPECT_GE(section.end_seconds() - section.begin_seconds(),
              section.computation_seconds() * (1 - 1e-9));
    EXPECT_LE(section.end_bytes(), section.peak_bytes());
    end = section.end_seconds();
    peak = std::max(peak, section.peak_bytes());
    if (section.block() < 0 || section.phase() == GraphProto::UPDATE) continue;
    (section.phase() == GraphProto::FORWARD ? forward : backward).push_back(section.block());
  }
  for (const StepCost::Memory& memory : lowered.cost().memory()) in_use += memory.bytes();
  EXPECT_NEAR(computation, lowered.cost().computation_seconds(), 1e-9 * computation);
  EXPECT_LE(end, lowered.cost().step_seconds() * (1 + 1e-9));
  EXPECT_EQ(peak, in_use);
  EXPECT_EQ(forward, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(backward, (std::vector<int>{2, 1, 0}));
}

TEST_F(ServicesTest, EachMicroBatchAndRecomputationHasItsSections) {
  std::vector<std::string> order;
  const strategy::LoweredPlans::Lowered lowered = Lower(kRewritten, true);
  for (const auto& section : lowered.sections()) {
    if (section.block() < 0 || section.phase() == GraphProto::UPDATE) continue;
    const std::string name = (section.recomputed()                     ? "recompute "
                              : section.phase() == GraphProto::FORWARD ? "forward "
                                                                       : "backward ") +
                             std::to_string(section.block());
    // What assembles slices belongs to no block.
    if (order.empty() || order.back() != name) order.push_back(name);
  }
  const std::vector<std::string> micro_batch = {"forward 0",   "forward 1",  "forward 2",
                                                "backward 2",  "backward 1", "backward 0",
                                                "recompute 0", "backward 0"};
  std::vector<std::string> expected = micro_batch;
  expected.insert(expected.end(), micro_batch.begin(), micro_batch.end());
  EXPECT_EQ(order, expected);
}

// A plugin runs in a process of its own, with a copy of the context.
TEST_F(ServicesTest, ItTakesOverWhatACopyHasLowered) {
  strategy::LowerPlans request;
  *request.add_plans() = PlanOf(kOpen);
  *request.add_plans() = PlanOf(kRewritten);
  strategy::LoweredPlans of_copy;
  of_copy.add_plans()->mutable_cost()->set_step_seconds(17);
  of_copy.add_plans()->set_error("interrupted");
  context_->Remember(request, of_copy);
  EXPECT_EQ(Lower(kOpen, false).cost().step_seconds(), 17);
  EXPECT_GT(Lower(kRewritten, false).cost().step_seconds(), 0);
  // Sections need to be lowered, and the result then has both.
  const strategy::LoweredPlans::Lowered complete = Lower(kOpen, true);
  EXPECT_GT(complete.sections_size(), 0);
  EXPECT_NE(complete.cost().step_seconds(), 17);
  const strategy::LoweredPlans::Lowered again = Lower(kOpen, false);
  EXPECT_EQ(again.cost().SerializeAsString(), complete.cost().SerializeAsString());
  EXPECT_EQ(again.sections_size(), 0);
}

TEST_F(ServicesTest, EqualBlocksHaveEqualFingerprints) {
  const auto graphs = context_->Graphs({});
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  ASSERT_EQ(graphs->blocks_size(), graphs->graphs_size());
  for (int i = 0; i < graphs->graphs_size(); ++i) {
    const auto& fingerprints = graphs->blocks(i).fingerprints();
    EXPECT_EQ(fingerprints.size(), graphs->graphs(i).blocks_size());
    EXPECT_LE(std::set<std::string>(fingerprints.begin(), fingerprints.end()).size(), 1);
  }
}

TEST_F(ServicesTest, OperatorsOfARewrittenGraph) {
  strategy::DescribeGraphs all;
  *all.mutable_rewritten_by() = PlanOf(kRewritten);
  const auto graphs = context_->Graphs(all);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  strategy::DescribeOperators request;
  request.set_graph("train");
  const auto recorded = context_->Describe(request);
  *request.mutable_rewritten_by() = PlanOf(kRewritten);
  const auto rewritten = context_->Describe(request);
  ASSERT_TRUE(recorded.ok() && rewritten.ok()) << recorded.status() << rewritten.status();
  // The copies of one operator: its slices, in each micro-batch, and its recomputation.
  const auto copies = [](const strategy::OperatorDescriptions& of, const std::string& path) {
    std::vector<strategy::OperatorDescriptions::Operator> found;
    for (const auto& op : of.operators()) {
      const bool is_product = op.kind() == "matmul" && !absl::StrContains(op.path(), "grad") &&
                              !absl::StrContains(op.path(), "backward");
      if (is_product && absl::StartsWith(op.path(), path)) {
        found.push_back(op);
      }
    }
    return found;
  };
  const auto fc = copies(*recorded, "blocks.1.mlp.fc");
  const auto slices = copies(*rewritten, "blocks.1.mlp.fc");
  for (const auto& op : fc) SCOPED_TRACE(op.path());
  ASSERT_EQ(fc.size(), 1) << fc.back().path();
  ASSERT_EQ(slices.size(), 4);
  for (const auto& slice : slices) EXPECT_EQ(slice.flops(), fc[0].flops() / 4);
  EXPECT_EQ(copies(*rewritten, "blocks.0.mlp.fc").size(), 4);
  EXPECT_EQ(copies(*rewritten, "blocks.2.mlp.fc").size(), 2);
  // Each of them has a price.
  strategy::PriceOperators price;
  price.set_graph("train");
  price.add_mesh()->set_name("data");
  price.add_uses()->set_path(slices[0].path());
  EXPECT_FALSE(context_->Price(price).ok());
  *price.mutable_rewritten_by() = PlanOf(kRewritten);
  const auto sliced = context_->Price(price);
  ASSERT_TRUE(sliced.ok()) << sliced.status();
  price.clear_rewritten_by();
  price.mutable_uses(0)->set_path(fc[0].path());
  const auto full = context_->Price(price);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_LT(sliced->seconds(0), full->seconds(0) / 3);
  EXPECT_GT(sliced->seconds(0), 0);
}

TEST_F(ServicesTest, APlanThatDoesNotFitIsAnError) {
  strategy::DescribeOperators request;
  request.set_graph("train");
  *request.mutable_rewritten_by() =
      PlanOf(R"pb(stages {
                    slice { path: "blocks.1.mlp.fc.weight" dimension: 7 count: 2 }
                    mesh { name: "data" }
                  })pb");
  EXPECT_FALSE(context_->Describe(request).ok());
  request.mutable_rewritten_by()->set_format(1);
  EXPECT_FALSE(context_->Describe(request).ok());
}

// A strategy that explains an empty Plan, states a wrong time for it, and says that no Plan of
// another batch holds.
int32_t Put(const TesseraSink* sink, const std::string& bytes) {
  sink->put(sink->state, bytes.data(), bytes.size());
  return TESSERA_OK;
}

int32_t Explain(const TesseraStrategy*, const TesseraHost* host, const char*, size_t,
                const TesseraSink* sink) {
  strategy::Explanation explanation;
  for (const char* note : {"first", "last"}) {
    explanation.clear_notes();
    explanation.add_notes(note);
    explanation.set_bound_seconds(1e-9);
    explanation.set_step_seconds(1e-9);
    const std::string bytes = explanation.SerializeAsString();
    host->explain_plan(host, nullptr, bytes.data(), bytes.size(), sink);
  }
  const std::string malformed = "\xff";
  if (host->explain_plan(host, nullptr, malformed.data(), malformed.size(), sink) == TESSERA_OK) {
    return TESSERA_INTERNAL;
  }
  return Put(sink, PlanOf(kOpen).SerializeAsString());
}

int32_t Check(const TesseraStrategy*, const TesseraHost*, const char* request, size_t size,
              const TesseraSink* sink) {
  strategy::CheckRequest message;
  if (!message.ParseFromArray(request, static_cast<int>(size))) return TESSERA_INVALID;
  strategy::CheckResult result;
  if (message.request().batch() != 8) result.set_changed("the\nbatch");
  return Put(sink, result.SerializeAsString());
}

TEST_F(ServicesTest, AStrategyExplainsItsPlanAndChecksIt) {
  static constexpr TesseraStrategy kTable = {.struct_size = sizeof(TesseraStrategy),
                                             .needs_minor = 1,
                                             .name = "explains",
                                             .version = "1.0",
                                             .make_plan = Explain,
                                             .check_plan = Check};
  const auto plugin = Plugin::FromTable(&kTable, "a table");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  strategy::PlanRequest request;
  request.set_ranks(kRanks);
  request.set_batch(8);
  const auto made = PlanWith(*plugin, request, context_, {});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->explanation.notes_size(), 1);
  EXPECT_EQ(made->explanation.notes(0), "last");
  strategy::LowerPlans lower;
  *lower.add_plans() = made->plan;
  const StepCost cost = context_->Lower(lower).plans(0).cost();
  EXPECT_EQ(made->explanation.step_seconds(), cost.step_seconds());
  EXPECT_EQ(made->explanation.peak_bytes(), cost.peak_bytes());
  EXPECT_GT(cost.peak_bytes(), 0);

  CompiledRun compiled;
  compiled.plan = made->plan;
  compiled.arenas[MemorySpace::kDevice] = 1000;
  const auto check = [&] {
    const auto changed = CheckWith(*plugin, request, compiled, context_, {});
    return changed.ok() ? *changed : std::string(changed.status().message());
  };
  EXPECT_EQ(check(), "");
  request.set_batch(9);
  EXPECT_EQ(check(), "the batch");
  request.set_batch(8);
  request.set_memory_limit_bytes(1000);
  EXPECT_EQ(check(), "");
  request.set_memory_limit_bytes(999);
  EXPECT_EQ(check(), "it needs 1000 B, and the memory limit is 999 B");

  // The size of version 2.0 has no check, so a Plan holds if it fits.
  static constexpr TesseraStrategy kOlder = {
      .name = "explains", .version = "1.0", .make_plan = Explain, .check_plan = Check};
  const auto older = Plugin::FromTable(&kOlder, "a table");
  ASSERT_TRUE(older.ok()) << older.status();
  request.clear_memory_limit_bytes();
  request.set_batch(9);
  const auto changed = CheckWith(*older, request, compiled, context_, {});
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(*changed, "");
}

TEST_F(ServicesTest, OnlyOpenMicroBatchesMayBeDecided) {
  static constexpr TesseraStrategy kTable = {
      .name = "halves",
      .version = "1.0",
      .make_plan = [](const TesseraStrategy*, const TesseraHost*, const char*, size_t,
                      const TesseraSink* sink) {
        return Put(sink, PlanOf(kRewritten).SerializeAsString());
      }};
  const auto plugin = Plugin::FromTable(&kTable, "a table");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  strategy::PlanRequest request;
  request.set_ranks(kRanks);
  request.set_micro_batches(1);
  EXPECT_FALSE(PlanWith(*plugin, request, context_, {}).ok());
  request.add_open(strategy::PlanRequest::MICRO_BATCHES);
  EXPECT_TRUE(PlanWith(*plugin, request, context_, {}).ok());
}

}  // namespace
}  // namespace tessera
