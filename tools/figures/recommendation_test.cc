#include "tools/figures/recommendation.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A measured strategy with a batch of 16.
StrategyFigures Strategy(const std::string& label, double computation, double exposed,
                         int64_t bytes) {
  StrategyFigures figures;
  figures.label = label;
  figures.batch = 16;
  figures.step_seconds = computation + exposed;
  figures.spread_seconds = 0.001;
  figures.computation_seconds = computation;
  figures.exposed_seconds = exposed;
  figures.peak_bytes = bytes;
  figures.samples_per_second = 16 / figures.step_seconds;
  return figures;
}

StrategyFigures Ddp() { return Strategy("ddp", 0.2, 0, 6 * kGiB); }

StrategyFigures Fsdp() {
  StrategyFigures figures = Strategy("fsdp", 0.2, 0.022, 2 * kGiB);
  figures.exposed = {{"all-gather", 0.04}, {"reduce-scatter", 0.004}, {"all-reduce", 0}};
  return figures;
}

StrategyFigures TooLarge(const std::string& label, int64_t bytes) {
  StrategyFigures figures;
  figures.label = label;
  figures.fits = false;
  figures.batch = 16;
  figures.peak_bytes = bytes;
  return figures;
}

std::string Measured(const std::vector<StrategyFigures>& strategies) {
  return Recommendation(strategies, FiguresAre::kMeasured);
}

TEST(RecommendationTest, GathersMakeItSlower) {
  EXPECT_EQ(Measured({Fsdp(), Ddp()}),
            "ddp is fastest here; fsdp is 11 % slower (22.0 ms of gathers are exposed), but needs "
            "4.00 GiB less");
}

TEST(RecommendationTest, ReductionsMakeItSlower) {
  StrategyFigures ddp = Strategy("ddp", 0.2, 0.05, 6 * kGiB);
  ddp.exposed = {{"all-reduce", 0.05}};
  EXPECT_EQ(Measured({ddp, Strategy("fsdp", 0.2, 0.01, 2 * kGiB)}),
            "fsdp is fastest here; ddp is 19 % slower (40.0 ms more of communication is exposed, "
            "due to reductions) and needs 4.00 GiB more");
}

// Both expose reductions; only the gathers are more.
TEST(RecommendationTest, TheKindIsThatOfTheDifference) {
  StrategyFigures ddp = Strategy("ddp", 0.05, 0.139, 6 * kGiB);
  ddp.exposed = {{"all-reduce", 0.134}};
  StrategyFigures fsdp = Strategy("fsdp", 0.03, 0.206, 6 * kGiB);
  fsdp.exposed = {{"all-gather", 0.09}, {"reduce-scatter", 0.1}};
  EXPECT_EQ(Measured({ddp, fsdp}),
            "ddp is fastest here; fsdp is 25 % slower (67.0 ms more of communication is exposed, "
            "due to gathers)");
}

TEST(RecommendationTest, ExposedCommunicationMayBeOfManyKinds) {
  StrategyFigures fsdp = Fsdp();
  fsdp.exposed = {{"all-gather", 0.5}, {"reduce-scatter", 0.5}};
  EXPECT_EQ(Measured({Ddp(), fsdp}),
            "ddp is fastest here; fsdp is 11 % slower (22.0 ms of communication is exposed), but "
            "needs 4.00 GiB less");
  fsdp.exposed = {{"all-to-all", 1}};
  EXPECT_THAT(Measured({Ddp(), fsdp}), ::testing::HasSubstr("(22.0 ms of exchanges are exposed)"));
  fsdp.exposed.clear();
  EXPECT_THAT(Measured({Ddp(), fsdp}),
              ::testing::HasSubstr("(22.0 ms of communication is exposed)"));
}

TEST(RecommendationTest, RecomputationMakesItSlower) {
  StrategyFigures lean = Strategy("lean", 0.26, 0, 3 * kGiB);
  lean.recomputation_seconds = 0.05;
  lean.micro_batches = 2;
  EXPECT_EQ(Measured({Ddp(), lean}),
            "ddp is fastest here; lean is 30 % slower (it recomputes activations for 50.0 ms), but "
            "needs 3.00 GiB less");
}

TEST(RecommendationTest, MicroBatchesMakeItSlower) {
  StrategyFigures lean = Strategy("lean", 0.26, 0, 3 * kGiB);
  lean.micro_batches = 4;
  EXPECT_EQ(Measured({Ddp(), lean}),
            "ddp is fastest here; lean is 30 % slower (its 4 micro-batches compute 60.0 ms "
            "longer), but needs 3.00 GiB less");
}

TEST(RecommendationTest, ComputationMakesItSlower) {
  EXPECT_EQ(
      Measured({Ddp(), Strategy("tensor_parallel", 0.45, 0.01, 6 * kGiB)}),
      "ddp is fastest here; tensor_parallel takes 2.3 times as long (its computation takes 250 ms "
      "longer)");
}

TEST(RecommendationTest, TwoReasonsMayCountAlike) {
  StrategyFigures fsdp = Fsdp();
  fsdp.computation_seconds += 0.012;
  fsdp.step_seconds += 0.012;
  EXPECT_EQ(Measured({Ddp(), fsdp}),
            "ddp is fastest here; fsdp is 17 % slower (22.0 ms of gathers are exposed, and its "
            "computation takes 12.0 ms longer), but needs 4.00 GiB less");
  // Both parts are measured apart from the step, and may not show it.
  fsdp.computation_seconds = 0.2;
  fsdp.exposed_seconds = 0;
  EXPECT_EQ(Measured({Ddp(), fsdp}),
            "ddp is fastest here; fsdp is 17 % slower, but needs 4.00 GiB less");
}

TEST(RecommendationTest, WithinTheSpreadTheyAreEqual) {
  StrategyFigures ddp = Strategy("ddp", 0.2, 0, 46 << 20);
  StrategyFigures fsdp = Strategy("fsdp", 0.2018, 0, 43 << 20);
  fsdp.spread_seconds = 0.03 * fsdp.step_seconds;
  EXPECT_EQ(Measured({ddp, fsdp}),
            "ddp and fsdp are equally fast here (they differ by 0.9 %, and steps spread by 3 %); "
            "fsdp needs 3.00 MiB less");
  // Memory that hardly differs is not mentioned.
  fsdp.peak_bytes = ddp.peak_bytes - 4096;
  EXPECT_EQ(Measured({fsdp, ddp}),
            "fsdp and ddp are equally fast here (they differ by 0.9 %, and steps spread by 3 %)");
}

TEST(RecommendationTest, ALargeSpreadMayHideADifference) {
  StrategyFigures fsdp = Fsdp();
  fsdp.spread_seconds = 0.03;
  EXPECT_EQ(
      Measured({Ddp(), fsdp}),
      "it does not show which of ddp and fsdp is fastest here (they differ by 11 %, and steps "
      "spread by 14 %); fsdp needs 4.00 GiB less");
}

TEST(RecommendationTest, SeveralMayBeEqual) {
  EXPECT_EQ(Measured({Ddp(), Strategy("a", 0.2005, 0, 5 * kGiB), Strategy("b", 0.2001, 0, 4 * kGiB),
                      Fsdp()}),
            "ddp, a and b are equally fast here (they differ by up to 0.2 %, and steps spread by "
            "0.5 %); b needs 2.00 GiB less than ddp; fsdp is 11 % slower (22.0 ms of gathers are "
            "exposed), but needs 2.00 GiB less");
}

TEST(RecommendationTest, OfManySlowerOnesTheNextAndTheLeanestAreNamed) {
  EXPECT_EQ(
      Measured({Ddp(), Strategy("a", 0.3, 0, 6 * kGiB), Strategy("b", 0.22, 0, 6 * kGiB),
                Strategy("c", 0.4, 0, kGiB), Strategy("d", 0.5, 0, 5 * kGiB)}),
      "ddp is fastest here; b is 10 % slower (its computation takes 20.0 ms longer); c takes 2.0 "
      "times as long (its computation takes 200 ms longer), but needs 5.00 GiB less");
}

TEST(RecommendationTest, ThoseThatDoNotFitAreNamed) {
  EXPECT_EQ(Measured({TooLarge("ddp", 6 * kGiB), Fsdp()}),
            "only fsdp fits; ddp (6.00 GiB) does "
            "not fit");
  EXPECT_EQ(Measured({TooLarge("a", 0), TooLarge("b", 8 * kGiB), Ddp(), Fsdp()}),
            "ddp is fastest here; fsdp is 11 % slower (22.0 ms of gathers are exposed), but needs "
            "4.00 GiB less; a and b (8.00 GiB) do not fit");
  EXPECT_EQ(Measured({TooLarge("a", 7 * kGiB), TooLarge("b", 8 * kGiB)}),
            "none of a and b fits; a needs the least, 7.00 GiB");
}

TEST(RecommendationTest, AnotherBatchIsComparedBySamples) {
  StrategyFigures big = Strategy("big", 0.3, 0, 8 * kGiB);
  big.batch = 32;
  big.samples_per_second = 32 / big.step_seconds;
  EXPECT_EQ(Measured({big, Ddp(), Fsdp()}),
            "ddp is fastest here; fsdp is 11 % slower (22.0 ms of gathers are exposed), but needs "
            "4.00 GiB less; big, another training with batch 32, processes 33 % more samples/s "
            "than ddp and needs 2.00 GiB more");
  EXPECT_EQ(Measured({Ddp(), big}),
            "big, another training with batch 32, processes 33 % more samples/s than ddp and needs "
            "2.00 GiB more");
  big.samples_per_second = 16 / 0.2;
  EXPECT_EQ(Measured({Ddp(), big}),
            "big, another training with batch 32, processes as many samples/s as ddp and needs "
            "2.00 GiB more");
}

TEST(RecommendationTest, PredictionsAreNamedAsSuch) {
  StrategyFigures ddp = Ddp(), fsdp = Fsdp();
  ddp.spread_seconds = fsdp.spread_seconds = 0;
  EXPECT_EQ(Recommendation({ddp, fsdp}, FiguresAre::kPredicted),
            "ddp is fastest by these predictions; fsdp is 11 % slower (22.0 ms of gathers are "
            "exposed), but needs 4.00 GiB less");
  fsdp.step_seconds = 1.004 * ddp.step_seconds;
  EXPECT_EQ(Recommendation({ddp, fsdp}, FiguresAre::kPredicted),
            "ddp and fsdp are equally fast by these predictions (they differ by 0.4 %); fsdp needs "
            "4.00 GiB less");
}

TEST(RecommendationTest, RanksAreNamedIfTheyDiffer) {
  StrategyFigures four = Strategy("ddp", 0.1, 0.01, 6 * kGiB);
  four.ranks = 4;
  EXPECT_EQ(
      Measured({Ddp(), four}),
      "ddp on 4 ranks is fastest here; ddp on 1 rank is 82 % slower (its computation takes 100 ms "
      "longer)");
}

TEST(RecommendationTest, ThereIsNoChoice) {
  EXPECT_EQ(Measured({}), "");
  EXPECT_EQ(Measured({Ddp()}), "");
}

}  // namespace
}  // namespace tessera
