#include "tools/plan/plan_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/substitute.h"
#include "google/protobuf/text_format.h"
#include "tools/plan/testing/small_cells.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Plan Parse(const std::string& stage) {
  Plan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("stages { " + stage + " }", &plan));
  return plan;
}

std::vector<DecisionDiff> Diff(const std::string& a, const std::string& b) {
  Graph graph("train");
  for (const char* block : {"blocks.0", "blocks.1"}) Scope scope(&graph, block, Scope::kBlock);
  return DiffPlans(Parse(a), Parse(b), LayerNames(graph));
}

TEST(PlanDiffTest, NamesOfAxesAreNoDifference) {
  EXPECT_THAT(Diff(R"p(mesh { name: "data" size: 2 } store { path: "w" layout: "data: S(0)" })p",
                   R"p(mesh { name: "shard" size: 2 } store { path: "w" layout: "shard: S(0)" })p"),
              IsEmpty());
}

// Only the first axis of a layout got its other name.
TEST(PlanDiffTest, NamesOfTwoAxesAreNoDifference) {
  const auto stage = [](const std::string& a, const std::string& b) {
    return absl::Substitute(R"p(
      mesh { name: "$0" size: 2 }
      mesh { name: "$1" size: 2 }
      store { path: "w" layout: "$0: S(0), $1: S(1)" }
      compute { path: "op" signature: "$0: B, S(0) -> P; $1: B" }
      redistribution {
        from: "$0: P, $1: P"
        to: "B"
        step: "all-reduce along $0 and $1: $0: P, $1: P => B"
      })p",
                            a, b);
  };
  EXPECT_THAT(Diff(stage("data", "model"), stage("and", "along")), IsEmpty());
}

TEST(PlanDiffTest, OtherStepsOfARedistributionAreADifference) {
  const auto stage = [](const std::string& redistributions) {
    return R"p(mesh { name: "data" size: 2 })p" + redistributions;
  };
  const auto diffs = Diff(stage(R"p(redistribution {
                                      type { shape: 4 } from: "data: P" to: "data: S(0)"
                                      step: "reduce-scatter along data: data: P => data: S(0)"
                                    })p"),
                          stage(R"p(redistribution {
                                      type { shape: 4 } from: "data: P" to: "data: S(0)"
                                      step: "all-reduce along data: data: P => B"
                                      step: "slice along data: B => data: S(0)"
                                    }
                                    redistribution {
                                      type { shape: 8 } from: "data: P" to: "B"
                                      step: "all-reduce along data: data: P => B"
                                    })p"));
  ASSERT_EQ(diffs.size(), 1u);  // only one of the Plans has the last one
  EXPECT_EQ(diffs[0].subject, "steps of f32[4] from data: P to data: S(0)");
  EXPECT_EQ(diffs[0].a, "reduce-scatter along data: data: P => data: S(0)");
  EXPECT_EQ(diffs[0].b, "all-reduce along data: data: P => B; slice along data: B => data: S(0)");
}

TEST(PlanDiffTest, SizesOfAxesAre) {
  const auto diffs =
      Diff(R"p(mesh { name: "data" size: 2 })p", R"p(mesh { name: "shard" size: 4 })p");
  ASSERT_EQ(diffs.size(), 1u);
  EXPECT_EQ(diffs[0].subject, "mesh");
  EXPECT_EQ(diffs[0].a, "data: 2");
  EXPECT_EQ(diffs[0].b, "shard: 4");
}

TEST(PlanDiffTest, EqualLayersAreOneDifference) {
  const auto diffs = Diff(R"p(store { path: "blocks.0.w" layout: "data: S(0)" }
                             store { path: "blocks.1.w" layout: "data: S(0)" }
                             store { path: "wte" layout: "data: S(0)" })p",
                          R"p(store { path: "wte" layout: "data: S(1)" })p");
  ASSERT_EQ(diffs.size(), 2u);
  EXPECT_EQ(diffs[0].subject, "layout of blocks.*.w");
  EXPECT_EQ(diffs[0].b, "");
  EXPECT_EQ(diffs[0].count, 2);
  EXPECT_EQ(diffs[1].a, "data: S(0)");
  EXPECT_EQ(diffs[1].b, "data: S(1)");
}

TEST(PlanDiffTest, DecisionsOfAllKinds) {
  const auto diffs = Diff(R"p(parts { graph: "train" micro_batches: 2 recompute: "blocks.0" }
                             parts { graph: "evaluate" micro_batches: 7 })p",
                          R"p(parts { graph: "train" micro_batches: 4 logits: KEPT }
                             group { path: "a|b" over: "data" gather: ONCE }
                             slice { path: "w" dimension: 1 count: 4 }
                             pass { limit_gathers { in_flight: 3 } })p");
  std::vector<std::string> subjects;
  for (const DecisionDiff& diff : diffs) subjects.push_back(diff.subject);
  EXPECT_THAT(subjects,
              ::testing::ElementsAre("micro-batches", "recomputed", "logits", "slices of w",
                                     "group of a, b", "pass limit_gathers"));
}

TEST(PlanDiffTest, TextOfTwoStrategies) {
  const std::string text = DiffText(SmallCell("ddp", 4), SmallCell("fsdp", 4));
  EXPECT_THAT(text, AllOf(HasSubstr("optimizer state"), HasSubstr("all-gather along shard, sent"),
                          HasSubstr("pass bucket_gradients"), HasSubstr("(2 times)"),
                          Not(HasSubstr("all decisions are the same"))));
}

TEST(PlanDiffTest, TextOfTheSame) {
  EXPECT_THAT(DiffText(SmallCell("fsdp", 4), SmallCell("fsdp", 4)),
              HasSubstr("all decisions are the same"));
}

}  // namespace
}  // namespace tessera
