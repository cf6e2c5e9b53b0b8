#include "tools/plan/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/explanation.h"
#include "tools/plan/layer_names.h"
#include "tools/plan/testing/small_cells.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(LayerNamesTest, BlocksOfOneScopeShareAName) {
  Graph graph("train");
  for (const char* block : {"blocks.0", "blocks.1", "head"}) {
    Scope scope(&graph, block, Scope::kBlock);
  }
  const LayerNames names(graph);
  EXPECT_EQ(names.LayerOf("blocks.1.mlp.fc"), "blocks.*");
  EXPECT_EQ(names.LayerOf("blocks.10.mlp.fc"), "blocks");
  EXPECT_EQ(names.LayerOf("head.matmul"), "head");
  EXPECT_EQ(names.LayerOf("loss@3.divide"), "loss");
  EXPECT_EQ(names.LayerOf("tokens"), "tokens");
  EXPECT_EQ(names.PatternOf("blocks.0.mlp.fc.weight.grad@12.group"),
            "blocks.*.mlp.fc.weight.grad.group");
  EXPECT_EQ(names.PatternOf("wte.weight"), "wte.weight");
  EXPECT_EQ(names.CountOf("blocks.*"), 2);
  EXPECT_EQ(names.CountOf("head"), 1);
}

double SumOf(const std::vector<WorkTime>& works) {
  return std::accumulate(works.begin(), works.end(), 0.0,
                         [](double sum, const WorkTime& work) { return sum + work.seconds; });
}

// The parts of a step add up to what is estimated of it.
TEST(StepProfileTest, PartsAddUp) {
  for (const std::string strategy : {"ddp", "fsdp"}) {
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{}, {"--micro_batches=2", "--recompute=block"}}) {
      const Cell cell = SmallCell(strategy, 4, flags);
      const StepProfile profile = ProfileOf(cell);
      const StepCost& cost = cell.prepared.estimated;
      EXPECT_DOUBLE_EQ(profile.step_seconds, cost.step_seconds());
      EXPECT_DOUBLE_EQ(profile.computing_seconds, cost.computation_seconds());
      EXPECT_NEAR(profile.exposed_seconds, cost.exposed_seconds(), 1e-12);
      double computation = 0, exposed = 0, recomputation = 0, waits = 0, communication = 0;
      for (const LayerTime& layer : profile.layers) {
        computation += layer.forward + layer.recomputation + layer.backward + layer.update;
        recomputation += layer.recomputation;
        exposed += layer.exposed;
      }
      for (const CollectiveWait& wait : profile.waits) waits += wait.exposed;
      for (const auto& collective : cost.collectives()) communication += collective.seconds();
      EXPECT_NEAR(computation, profile.computation_seconds, 1e-12);
      EXPECT_NEAR(exposed, cost.exposed_seconds(), 1e-12);
      EXPECT_NEAR(waits, cost.exposed_seconds(), 1e-12);
      EXPECT_NEAR(SumOf(profile.requests), profile.computation_seconds, 1e-12);
      EXPECT_NEAR(SumOf(profile.collectives), communication, 1e-12);
      EXPECT_NEAR(SumOf(profile.kinds), profile.computation_seconds + communication, 1e-12);
      EXPECT_EQ(recomputation > 0, !flags.empty());
    }
  }
}

// An all-gather of a block's parameters begins after something, and what reads them waits for it.
TEST(StepProfileTest, CollectivesNameWhatTheyWaitFor) {
  const StepProfile profile = ProfileOf(SmallCell("fsdp", 4));
  int named = 0;
  for (const CollectiveWait& wait : profile.waits) {
    EXPECT_NE(wait.waits_for, wait.path);
    named += wait.waits_for.empty() || wait.delays.empty() ? 0 : 1;
  }
  EXPECT_GT(named, 1);
}

TEST(ExplanationTest, HasAllParts) {
  const Cell cell = SmallCell("fsdp", 4);
  const std::string text = Explanation(FiguresOf(cell), ProfileOf(cell), std::vector<Change>{});
  EXPECT_THAT(text, StartsWith("fsdp on 4 ranks: a step of "));
  EXPECT_THAT(text,
              AllOf(HasSubstr("by layer"), HasSubstr("blocks.* (2)"), HasSubstr("by operation"),
                    HasSubstr("matmul"), HasSubstr("the dearest instructions"),
                    HasSubstr("collectives beside which nothing is computed"),
                    HasSubstr("no single change")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(Explanation(FiguresOf(cell), ProfileOf(cell), std::nullopt),
              Not(HasSubstr("single change")));
}

}  // namespace
}  // namespace tessera
