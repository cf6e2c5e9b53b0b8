#include "tools/compare/comparison.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/compare/comparison_json.h"

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
  comparison.tokens = 2000;
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
            R"(                                               ddp   fsdp:reshard=no:prefetch=2
                               estimated  measured   estimated         measured
step time, median                50.0 ms    110 ms      100 ms           220 ms
  from the first quartile              -    105 ms           -           210 ms
  to the third quartile                -    115 ms           -           230 ms
  over that of ddp                 1.000     1.000       2.000            2.000
tokens/s                           40.0K     18.2K       20.0K            9.09K
computation alone                25.0 ms    100 ms     50.0 ms           200 ms
communication alone                  0 s   20.0 ms         0 s          40.0 ms
exposed communication            25.0 ms   10.0 ms     50.0 ms          20.0 ms
peak memory of a rank           1.00 MiB  1.00 MiB    1.00 MiB         1.00 MiB
all-reduce along data, calls           3         3           -                -
  bytes sent                    4.00 KiB  4.00 KiB           -                -
all-gather along data, calls           -         -           -                5
  bytes sent                           -         -           -         2.00 KiB
loss of step 4                         -  4.250000           -         4.250000
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
  EXPECT_EQ(
      ComparisonTable(comparison),
      R"(                                                ddp                   mine                    large
                                                        trains differently   does not fit: 44.9 MiB
                               estimated  measured*   estimated  measured*   estimated    measured*
step time, median                50.0 ms     110 ms           -          -      100 ms            -
  from the first quartile              -     105 ms           -          -           -            -
  to the third quartile                -     115 ms           -          -           -            -
  over that of ddp                 1.000      1.000           -          -       2.000            -
tokens/s                           40.0K      18.2K           -          -       20.0K            -
computation alone                25.0 ms     100 ms           -          -     50.0 ms            -
communication alone                  0 s    20.0 ms           -          -         0 s            -
exposed communication            25.0 ms    10.0 ms           -          -     50.0 ms            -
peak memory of a rank           1.00 MiB   1.00 MiB    1.00 MiB   1.00 MiB    1.00 MiB            -
all-reduce along data, calls           3          3           -          -           -            -
  bytes sent                    4.00 KiB   4.00 KiB           -          -           -            -
loss of step 4                         -   4.250000           -   4.250000           -            -
estimated times are those of a cluster
* all ranks ran on this host, so measured times are those of its loopback; estimated times are those of links between the hosts of --hosts
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
  EXPECT_EQ(
      PredictionTable(comparison),
      R"(                                     step         spread    computation        exposed  communication       tokens/s
ddp                               50.0 ms           2.0%        25.0 ms        25.0 ms            0 s          40.0K
fsdp:reshard=no:prefetch=2  does not fit: 44.9 MiB
predicted by the prices that 3 rounds have measured; spread: half the interquartile range of rounds
)");
  const auto json = nlohmann::json::parse(ComparisonJson(comparison));
  EXPECT_EQ(json["strategies"][0]["outcome"], "only priced");
  EXPECT_EQ(json["strategies"][0]["calibrated"]["rounds"].size(), 3);
  EXPECT_FALSE(json["strategies"][0].contains("measured"));
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
