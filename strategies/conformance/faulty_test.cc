// Checks that a plugin with one fault is detected, by a message that names the fault.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/conformance/check_strategy.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Check(const std::string& fault, const std::string& model = "gpt_odd") {
  const auto plugin = Plugin::Load("strategies/conformance/testing/faulty.so");
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  StrategyChecks checks;
  checks.options = {"fault=" + fault};
  checks.models = {model};
  checks.ranks = {1, 2, 3};
  checks.steps = 3;
  return std::string(CheckStrategy(*plugin, checks).message());
}

TEST(FaultyTest, WithoutAFaultItPasses) { EXPECT_EQ(Check("none"), ""); }

TEST(FaultyTest, BytesThatAreEstimatedWrongly) {
  EXPECT_THAT(Check("fewer_bytes"), HasSubstr("its estimate says"));
  EXPECT_THAT(Check("fewer_calls"), HasSubstr("its estimate says"));
  EXPECT_THAT(Check("less_memory"), HasSubstr("bytes of memory at the peak"));
}

TEST(FaultyTest, MemoryLimitsThatAreNamedWrongly) {
  EXPECT_THAT(Check("any_limit"),
              HasSubstr("it says that a memory limit of 17 bytes can be met: "));
  EXPECT_THAT(Check("no_limit"), HasSubstr("does not end with the smallest limit: "));
  EXPECT_THAT(Check("high_limit"), HasSubstr("123456789 bytes is the smallest memory limit that "
                                             "can be met, and it accepts one byte less"));
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
              AllOf(HasSubstr("2 ranks: training differs from one process with 3 micro-batches, "
                              "too, in step 0, "),
                    HasSubstr(".bias.grad, which is 2 times as large")));
  EXPECT_THAT(Check("average_micro_batches", "gpt_accumulating"),
              AllOf(HasSubstr("2 ranks: training differs from one process with 3 micro-batches, "
                              "too, in step 0, "),
                    HasSubstr(".grad, which is 0.333333 times as large")));
}

TEST(FaultyTest, MemoryThatIsFreedTooEarly) {
  EXPECT_THAT(Check("share_bytes"), HasSubstr("bytes"));
}

TEST(FaultyTest, CollectivesInAnotherOrderOnOneRank) {
  EXPECT_THAT(Check("reorder_on_odd_ranks"), HasSubstr("compiles another program"));
}

TEST(FaultyTest, APassThatReturnsNoProgram) {
  EXPECT_THAT(Check("no_program"), HasSubstr("pass 'no_program' of strategy faulty"));
}

TEST(FaultyTest, PlansThatDiffer) {
  EXPECT_THAT(Check("random"), HasSubstr("another Plan for the same request"));
}

TEST(FaultyTest, PlansThatCannotBeRun) {
  EXPECT_THAT(Check("unknown_path"), HasSubstr("no.such.path"));
  EXPECT_THAT(Check("no_mesh"), HasSubstr("mesh"));
  EXPECT_THAT(Check("throw"), HasSubstr("threw an exception: the strategy is broken"));
  EXPECT_THAT(Check("refuse"), HasSubstr("suit none of the models"));
}

}  // namespace
}  // namespace tessera
