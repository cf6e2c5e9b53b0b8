// Checks that a plugin with one fault is detected, by a message that names the fault.
#include <chrono>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/conformance/check_strategy.h"
#include "strategies/conformance/known_models.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Check(const std::string& fault, const std::string& model = "gpt_odd",
                  const std::vector<int>& ranks = {1, 2, 3}) {
  const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  StrategyChecks checks;
  checks.options = {"fault=" + fault};
  checks.models = {model};
  checks.ranks = ranks;
  checks.steps = 3;
  static auto* const models = new KnownModels;
  return std::string(CheckStrategy(*plugin, checks, *models).message());
}

bool IsOfDefaultModels(const std::string& model) {
  return absl::c_linear_search(StrategyChecks().models, model);
}

TEST(FaultyTest, WithoutAFaultItPasses) { EXPECT_EQ(Check("none"), ""); }

TEST(FaultyTest, BytesThatAreEstimatedWrongly) {
  EXPECT_THAT(Check("fewer_bytes"), HasSubstr("its estimate says"));
  EXPECT_THAT(Check("fewer_calls"), HasSubstr("its estimate says"));
  EXPECT_THAT(Check("less_memory"), HasSubstr("bytes of memory at the peak"));
}

TEST(FaultyTest, EstimatesOfOtherAxesAndCategories) {
  EXPECT_THAT(Check("other_axes"), HasSubstr("all-reduce along data; its Plan has "));
  EXPECT_THAT(Check("wrong_categories"), HasSubstr(" bytes of memory for "));
}

TEST(FaultyTest, TimesThatAreNone) {
  EXPECT_THAT(Check("nan_time"), HasSubstr("its estimate has step_seconds nan: a time is a finite "
                                           "number of 0 or more"));
  EXPECT_THAT(Check("nan_time_of_a_part"), HasSubstr("its estimate has seconds of 'forward' nan"));
  EXPECT_THAT(Check("no_time"), HasSubstr("its estimate says that a step takes 0 s, and the "
                                          "computation alone takes "));
  EXPECT_THAT(Check("too_fast"), HasSubstr("and the computation alone takes "));
}

TEST(FaultyTest, BytesThatAreWrongForLargeModelsOnly) {
  EXPECT_EQ(Check("fewer_bytes_if_large"), "");
  EXPECT_TRUE(IsOfDefaultModels("gpt_large"));
  EXPECT_THAT(Check("fewer_bytes_if_large", "gpt_large"),
              HasSubstr("gpt_large, 2 ranks: its estimate says "));
}

TEST(FaultyTest, MemoryLimitsThatAreNamedWrongly) {
  EXPECT_THAT(Check("any_limit"),
              HasSubstr("it says that a memory limit of 17 bytes can be met: "));
  EXPECT_THAT(Check("no_limit"), HasSubstr("does not end with the smallest limit: "));
  EXPECT_THAT(Check("high_limit"), HasSubstr("123456789 bytes is the smallest memory limit that "
                                             "can be met, and it accepts one byte less"));
}

// Each is wrong in a place where most runs do not look.
TEST(FaultyTest, TrainingThatIsWrongInSomeRunsOnly) {
  EXPECT_EQ(Check("five_to_seven_ranks", "gpt_odd", {4, 8}), "");
  for (const int ranks : {5, 6, 7}) {
    EXPECT_TRUE(absl::c_linear_search(StrategyChecks().ranks, ranks));
    EXPECT_THAT(Check("five_to_seven_ranks", "gpt_odd", {ranks}),
                HasSubstr("training differs from one process in"));
  }
  EXPECT_EQ(Check("four_micro_batches", "partly_trained_accumulating", {2}), "");
  EXPECT_TRUE(IsOfDefaultModels("gpt_accumulating"));
  EXPECT_THAT(Check("four_micro_batches", "gpt_accumulating"),
              HasSubstr("training differs from one process with 4 micro-batches"));
  EXPECT_EQ(Check("many_states"), "");
  EXPECT_THAT(Check("many_states", "gpt_large"), HasSubstr("training differs from one process in"));
}

TEST(FaultyTest, WrongEvaluationAndGeneration) {
  EXPECT_THAT(Check("evaluate_wrongly"),
              HasSubstr("differs from one process in evaluation of batch "));
  EXPECT_THAT(Check("generate_wrongly"),
              HasSubstr("differs from one process in generation of token "));
}

TEST(FaultyTest, AGradientThatIsNotReduced) {
  EXPECT_THAT(Check("reduce_smallest_wrongly"), HasSubstr("training differs from one process in"));
  // The Program says so, or ranks hold different parameters.
  EXPECT_NE(Check("read_unreduced"), "");
}

// Regression: the other ranks waited for a minute, and one of them was reported.
TEST(FaultyTest, ARankThatFindsADifferenceEndsTheOthersAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = Check("read_unreduced", "gpt_odd", {3});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_THAT(message, Not(HasSubstr("did not come")));
}

TEST(FaultyTest, GradientsThatAreReducedTwiceOrWrongly) {
  EXPECT_THAT(Check("reduce_twice"), AllOf(HasSubstr("training differs from one process in step 0"),
                                           HasSubstr(".grad, which is 2 times as large")));
  EXPECT_THAT(Check("reduce_wrongly"), HasSubstr("training differs from one process in"));
}

TEST(FaultyTest, GradientsThatAreWrongOnlyWhereTheyAreAccumulated) {
  for (const char* fault : {"reduce_each_micro_batch", "average_micro_batches"}) {
    EXPECT_EQ(Check(fault), "") << fault << ", with one micro-batch";
  }
  EXPECT_THAT(Check("reduce_each_micro_batch", "gpt_accumulating"),
              AllOf(HasSubstr("2 ranks: training differs from one process with 4 micro-batches, "
                              "too, in step 0, "),
                    HasSubstr(".bias.grad, which is 2 times as large")));
  EXPECT_THAT(Check("average_micro_batches", "gpt_accumulating"),
              AllOf(HasSubstr("2 ranks: training differs from one process with 4 micro-batches, "
                              "too, in step 0, "),
                    HasSubstr(".grad, which is 0.25 times as large")));
}

TEST(FaultyTest, MemoryThatIsFreedTooEarly) {
  EXPECT_THAT(Check("share_bytes"), HasSubstr("bytes"));
}

TEST(FaultyTest, CollectivesInAnotherOrderOnOneRank) {
  EXPECT_THAT(Check("reorder_on_odd_ranks"), HasSubstr("another program "));
}

TEST(FaultyTest, APassThatReturnsNoProgram) {
  EXPECT_THAT(Check("no_program"), HasSubstr("pass 'no_program' of strategy faulty"));
}

TEST(FaultyTest, PlansThatDiffer) {
  EXPECT_THAT(Check("random"), HasSubstr("another Plan for the same request"));
  EXPECT_THAT(Check("reads_rank"), HasSubstr("another Plan for the same request, when RANK and the "
                                             "like say that it is rank 1"));
  EXPECT_THAT(Check("reads_clock"), HasSubstr("another Plan for the same request"));
  // Ranks may run the pass in different seconds, too.
  EXPECT_THAT(Check("reorder_in_odd_seconds"),
              AnyOf(HasSubstr("another program "), HasSubstr(" from rank 0 in the program")));
}

TEST(FaultyTest, FunctionsThatEndTheProcess) {
  EXPECT_THAT(Check("segmentation_fault"),
              HasSubstr("strategy faulty: `make_plan` ended its process: signal 11"));
  EXPECT_THAT(Check("abort_in_estimate"),
              HasSubstr("strategy faulty: `estimate` ended its process"));
  EXPECT_THAT(Check("abort_in_pass"), HasSubstr("`run_pass` of 'abort_in_pass' ended its process"));
  EXPECT_EQ(Check("late_thread", "mlp"), "");
}

TEST(FaultyTest, PlansThatCannotBeRun) {
  EXPECT_THAT(Check("unknown_path"), HasSubstr("no.such.path"));
  EXPECT_THAT(Check("no_mesh"), HasSubstr("mesh"));
  EXPECT_THAT(Check("throw"), HasSubstr("threw an exception: the strategy is broken"));
  EXPECT_THAT(Check("refuse"), HasSubstr("suit none of the models"));
}

}  // namespace
}  // namespace tessera
