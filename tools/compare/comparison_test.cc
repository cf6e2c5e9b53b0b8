#include "tools/compare/comparison.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/compare/comparison_json.h"
#include "tools/compare/comparison_table.h"

namespace tessera {
namespace {

void AddCollective(const char* operation, int64_t calls, int64_t bytes, StepCost* cost) {
  StepCost::Collective& added = *cost->add_collectives();
  added.set_operation(operation);
  added.add_mesh_axes("data");
  added.set_calls(calls);
  added.set_bytes(bytes);
}

StrategyResult Result(const std::string& label, double seconds) {
  StrategyResult result;
  result.label = label;
  result.batch = 16;
  result.step_seconds = {seconds, 1.2 * seconds, 1.1 * seconds};
  result.computation_seconds = {seconds, seconds};
  result.communication_seconds = {seconds / 8, seconds / 5, seconds / 2};
  result.outcome = Outcome::kRan;
  result.losses = {5.5, 5, 4.75, 4.25};
  result.grad_norms = {2, 2, 1, 1};
  result.last_step = 4;
  result.estimated.set_step_seconds(seconds / 2);
  result.estimated.set_computation_seconds(seconds / 4);
  result.estimated.set_exposed_seconds(seconds / 4);
  result.estimated.set_peak_bytes(1 << 20);
  result.counted.set_peak_bytes(1 << 20);
  return result;
}

Comparison Example() {
  Comparison comparison;
  comparison.model = "gpt";
  comparison.cluster = "a cluster";
  comparison.unit = {"sequence", "token", 125};
  comparison.rounds = 2;
  comparison.strategies = {Result("ddp", 0.1), Result("fsdp:reshard=no:prefetch=2", 0.2)};
  for (StepCost* cost : {&comparison.strategies[0].estimated, &comparison.strategies[0].counted}) {
    AddCollective("all-reduce", 3, 4096, cost);
  }
  AddCollective("all-gather", 5, 2048, &comparison.strategies[1].counted);
  return comparison;
}

TEST(ComparisonTest, QuantilesAreInterpolated) {
  EXPECT_DOUBLE_EQ(Quantile({3}, 0.25), 3);
  EXPECT_DOUBLE_EQ(Quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile({5, 1, 2, 3, 4}, 0.25), 2);
  EXPECT_DOUBLE_EQ(Quantile({2, 1}, 1), 2);
}

TEST(ComparisonTest, ExposedIsTheDifferenceOfMedians) {
  StrategyResult result = Result("ddp", 0.1);
  EXPECT_NEAR(ExposedSeconds(result), 0.01, 1e-12);
  result.computation_seconds = {0.2};
  EXPECT_EQ(ExposedSeconds(result), 0);
}

TEST(ComparisonTest, TheTableIsAligned) {
  EXPECT_EQ(ComparisonTable(Example()),
            R"(                                                          fsdp:reshard=no
                                               ddp            :prefetch=2
                               estimated  measured   estimated   measured
step time, median                50.0 ms    110 ms      100 ms     220 ms
  from the first quartile              -    105 ms           -     210 ms
  to the third quartile                -    115 ms           -     230 ms
  over that of ddp                 1.000     1.000       2.000      2.000
tokens/s                           40.0K     18.2K       20.0K      9.09K
samples/s                            320       145         160       72.7
computation alone                25.0 ms    100 ms     50.0 ms     200 ms
communication alone                  0 s   20.0 ms         0 s    40.0 ms
exposed communication            25.0 ms   10.0 ms     50.0 ms    20.0 ms
peak memory of a rank           1.00 MiB  1.00 MiB    1.00 MiB   1.00 MiB
all-reduce along data, calls           3         3           -          -
  bytes sent                    4.00 KiB  4.00 KiB           -          -
all-gather along data, calls           -         -           -          5
  bytes sent                           -         -           -   2.00 KiB
loss of step 4                         -  4.250000           -   4.250000
estimated times are those of a cluster
)");
}

TEST(ComparisonTest, AStrategyThatDidNotRunOrTrainsDifferentlyHasNoTimes) {
  Comparison comparison = Example();
  comparison.on_loopback = true;
  comparison.strategies[1] = Result("mine", 0.2);
  comparison.strategies[1].outcome = Outcome::kDiffers;
  comparison.strategies[1].remark = "trains differently";
  comparison.strategies.push_back(Result("large", 0.2));
  StrategyResult& large = comparison.strategies.back();
  large.outcome = Outcome::kDoesNotFit;
  large.remark = "does not fit: 44.9 MiB";
  large.losses.clear();
  large.counted.Clear();
  EXPECT_EQ(ComparisonTable(comparison),
            R"(                                                ddp                   mine
                                                        trains differently
                               estimated  measured*   estimated  measured*
step time, median                50.0 ms     110 ms           -          -
  from the first quartile              -     105 ms           -          -
  to the third quartile                -     115 ms           -          -
  over that of ddp                 1.000      1.000           -          -
tokens/s                           40.0K      18.2K           -          -
samples/s                            320        145           -          -
computation alone                25.0 ms     100 ms           -          -
communication alone                  0 s    20.0 ms           -          -
exposed communication            25.0 ms    10.0 ms           -          -
peak memory of a rank           1.00 MiB   1.00 MiB    1.00 MiB   1.00 MiB
all-reduce along data, calls           3          3           -          -
  bytes sent                    4.00 KiB   4.00 KiB           -          -
loss of step 4                         -   4.250000           -   4.250000

                                              large
                                      does not fit:
                                           44.9 MiB
                               estimated  measured*
step time, median                 100 ms          -
  over that of ddp                 2.000          -
tokens/s                           20.0K          -
samples/s                            160          -
computation alone                50.0 ms          -
communication alone                  0 s          -
exposed communication            50.0 ms          -
peak memory of a rank           1.00 MiB          -
estimated times are those of a cluster
* all ranks ran on this host, so measured times are those of its loopback;
estimated times are those of links between the hosts of --hosts
)");
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["strategies"][1]["outcome"], "trains differently");
  EXPECT_FALSE(json["strategies"][1].contains("measured"));
}

TEST(ComparisonTest, PricesPredictATableOfTheirOwn) {
  Comparison comparison = Example();
  comparison.rounds = 3;
  StrategyResult& priced = comparison.strategies[0];
  priced.outcome = Outcome::kPriced;
  priced.calibrated = priced.estimated;
  priced.calibrated_rounds = {0.048, 0.05, 0.052};
  StrategyResult& large = comparison.strategies[1];
  large.outcome = Outcome::kDoesNotFit;
  large.remark = "does not fit: 44.9 MiB";
  EXPECT_EQ(PredictionTable(comparison), R"(                                fsdp:reshard=no
                     ddp            :prefetch=2
                                  does not fit:
                                       44.9 MiB
step time        50.0 ms                      -
  spread            2.0%                      -
tokens/s           40.0K                      -
samples/s            320                      -
computation      25.0 ms                      -
communication        0 s                      -
  exposed        25.0 ms                      -
peak memory     1.00 MiB               1.00 MiB
predicted by the prices that 3 rounds have measured; spread: half the
interquartile range of rounds
)");
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["strategies"][0]["outcome"], "only priced");
  EXPECT_EQ(json["strategies"][0]["calibrated"]["rounds"].size(), 3);
  EXPECT_FALSE(json["strategies"][0].contains("measured"));
}

TEST(ComparisonTest, NoLineHasMoreThan80Columns) {
  const std::vector<std::string> labels = {"ddp",
                                           "fsdp:reshard=no:prefetch=2",
                                           "/long_names_without_a_colon_are_broken_anywhere.so",
                                           "lean=fsdp:recompute=blocks.*.mlp.gelu:micro_batches=16",
                                           "a",
                                           "b"};
  for (const size_t strategies : {1, 2, 3, 6}) {
    Comparison comparison = Example();
    comparison.on_loopback = true;
    comparison.cluster = "cpu: " + std::string(30, 'a') + " " + std::string(30, 'b');
    const StrategyResult ddp = comparison.strategies[0];
    comparison.strategies.assign(strategies, ddp);
    for (size_t s = 0; s < strategies; ++s) {
      StrategyResult& result = comparison.strategies[s];
      result.label = labels[s];
      result.losses.back() = -12345678.5;
      result.calibrated = result.estimated;
      result.calibrated_rounds = {0.1, 0.2};
      AddCollective("reduce-scatter", 1 << 30, int64_t{1} << 50, &result.estimated);
      if (s % 3 == 2) {
        result.batch = 1 << 20;
        result.outcome = Outcome::kDoesNotFit;
        result.remark = "does not fit: 44.9 MiB";
      }
    }
    for (const std::string& table : {ComparisonTable(comparison), PredictionTable(comparison)}) {
      for (const auto line : absl::StrSplit(table, '\n')) EXPECT_LE(line.size(), 80u) << table;
    }
  }
}

TEST(ComparisonTest, AnotherBatchIsAnotherTraining) {
  Comparison comparison = Example();
  comparison.strategies.push_back(Result("big", 0.15));
  comparison.strategies.back().batch = 32;
  EXPECT_EQ(CommonBatch(comparison), 16);
  comparison.strategies.erase(comparison.strategies.begin() + 1);
  EXPECT_EQ(ComparisonTable(comparison),
            R"(                                               ddp                    big
                                                                batch 32:
                                                         another training
                               estimated  measured   estimated   measured
step time, median                50.0 ms    110 ms     75.0 ms     165 ms
  from the first quartile              -    105 ms           -     158 ms
  to the third quartile                -    115 ms           -     172 ms
  over that of ddp                 1.000     1.000           -          -
tokens/s                           40.0K     18.2K       53.3K      24.2K
samples/s                            320       145         427        194
computation alone                25.0 ms    100 ms     37.5 ms     150 ms
communication alone                  0 s   20.0 ms         0 s    30.0 ms
exposed communication            25.0 ms   10.0 ms     37.5 ms    15.0 ms
peak memory of a rank           1.00 MiB  1.00 MiB    1.00 MiB   1.00 MiB
all-reduce along data, calls           3         3           -          -
  bytes sent                    4.00 KiB  4.00 KiB           -          -
loss of step 4                         -  4.250000           -          -
estimated times are those of a cluster
)");
  EXPECT_EQ(RecommendationOf(comparison),
            "big, another training with batch 32, processes 33 % more samples/s than ddp");
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["batch"], 16);
  EXPECT_EQ(json["strategies"][1]["batch"], 32);
  EXPECT_NEAR(json["strategies"][1]["measured"]["samples_per_second"], 32 / 0.165, 1e-9);
  EXPECT_NEAR(json["strategies"][1]["measured"]["tokens_per_second"], 4000 / 0.165, 1e-9);
}

TEST(ComparisonTest, TheRecommendationIsOfMeasuredFigures) {
  Comparison comparison = Example();
  comparison.strategies[1].label = "fsdp";
  comparison.strategies[1].computation_seconds = {0.1};
  comparison.strategies[1].counted.set_peak_bytes(1 << 19);
  StepCost::Collective& gather = *comparison.strategies[1].estimated.add_collectives();
  gather.set_operation("all-gather");
  gather.set_exposed_seconds(0.01);
  EXPECT_EQ(RecommendationOf(comparison),
            "ddp is fastest here; fsdp takes 2.0 times as long (120 ms of gathers are exposed), "
            "but needs 512 KiB less");
  // The predicted share of recomputation is one of the measured computation.
  comparison.strategies[1].computation_seconds = {0.2};
  StepCost::Time& time = *comparison.strategies[1].estimated.add_times();
  time.set_category("recomputation");
  time.set_seconds(0.02);
  comparison.strategies[1].estimated.set_computation_seconds(0.05);
  EXPECT_EQ(RecommendationOf(comparison),
            "ddp is fastest here; fsdp takes 2.0 times as long (it recomputes activations for 80.0 "
            "ms), but needs 512 KiB less");
  comparison.strategies[0].outcome = Outcome::kDiffers;
  EXPECT_EQ(RecommendationOf(comparison), "");
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_FALSE(json.contains("recommendation"));
}

TEST(ComparisonTest, APredictionStandsBesideTheMeasuredStep) {
  Comparison comparison = Example();
  comparison.strategies[0].calibrated.set_step_seconds(0.108);
  EXPECT_THAT(ComparisonTable(comparison),
              ::testing::ContainsRegex("by the prices of these rounds +108 ms +- +- +-\n"));
}

TEST(ComparisonTest, NothingIsEstimatedWithoutAPricedCluster) {
  Comparison comparison = Example();
  for (StrategyResult& result : comparison.strategies) result.estimated.Clear();
  const std::string table = ComparisonTable(comparison);
  EXPECT_EQ(table.find("inf"), std::string::npos) << table;
  EXPECT_EQ(table.find("nan"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_FALSE(json["strategies"][0].contains("estimated"));
}

TEST(ComparisonTest, JsonHasEveryNumber) {
  const auto json = nlohmann::json::parse(ComparisonJson(Example()));
  EXPECT_EQ(json["tokens"], 2000);
  ASSERT_EQ(json["strategies"].size(), 2);
  const auto& ddp = json["strategies"][0];
  EXPECT_EQ(ddp["name"], "ddp");
  EXPECT_DOUBLE_EQ(ddp["measured"]["step_seconds"], 0.11);
  EXPECT_DOUBLE_EQ(ddp["estimated"]["step_seconds"], 0.05);
  EXPECT_EQ(ddp["measured"]["steps"].size(), 3);
  EXPECT_DOUBLE_EQ(ddp["measured"]["communication_seconds"], 0.02);
  EXPECT_EQ(ddp["measured"]["collectives"][0]["operation"], "all-reduce");
  EXPECT_EQ(ddp["measured"]["collectives"][0]["mesh_axes"][0], "data");
  EXPECT_EQ(ddp["measured"]["collectives"][0]["bytes"], 4096);
  EXPECT_EQ(ddp["measured"]["last_loss"], 4.25);
}

}  // namespace
}  // namespace tessera
