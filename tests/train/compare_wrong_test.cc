// Checks that the tool that compares strategies names those that train differently.
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Compares DDP with the plugin that has this fault.
Result CompareWrong(const std::string& fault, const std::vector<std::string>& more = {}) {
  const std::string plugin =
      std::filesystem::absolute("strategies/conformance/testing/wrong_training.so").string();
  std::vector<std::string> flags = {
      "--set=model.layers=1,model.heads=2,model.channels=8,model.context=16",
      "--sequence=16",
      "--batch=8",
      "--threads=1",
      "--data=" + TextFile(),
      "--steps=4",
      "--rounds=2",
      "--backend=fake",
      "--strategies=ddp,wrong=" + plugin + ":fault=" + fault};
  flags.insert(flags.end(), more.begin(), more.end());
  return RunProgram(std::filesystem::absolute("tools/compare/compare").string(), flags);
}

void ExpectDifferent(const Result& result, const std::string& sentence) {
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error: wrong trains differently"));
  EXPECT_THAT(result.err, HasSubstr(sentence));
  EXPECT_THAT(result.out, AllOf(HasSubstr("trains differently"), HasSubstr("step time, median"),
                                Not(HasSubstr("| wrong |"))));
}

TEST(CompareWrong, WithoutAFault) {
  const Result result = CompareWrong("none");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(CompareWrong, NoReduction) {
  ExpectDifferent(CompareWrong("no_reduction"), "differs between ranks 0 and 1");
}

TEST(CompareWrong, MaximumInsteadOfSum) {
  ExpectDifferent(CompareWrong("maximum"), "wrong trains differently from ddp: in step 1 the ");
}

TEST(CompareWrong, OneSmallParameterIsNotReduced) {
  ExpectDifferent(CompareWrong("drop_one"), "in step 1 the gradient of ln_f.bias differs between");
}

// Strategies are only compared with those of the same batch.
TEST(CompareWrong, AnotherBatchIsNotCompared) {
  const std::string wrong =
      std::filesystem::absolute("strategies/conformance/testing/wrong_training.so").string() +
      ":fault=maximum:batch=16";
  const Result alone = CompareWrong("none", {"--strategies=ddp,wrong=" + wrong});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("note: wrong alone has a batch of 16"));
  ExpectDifferent(CompareWrong("none", {"--strategies=ddp,right=ddp:batch=16,wrong=" + wrong}),
                  "wrong trains differently from right: in step 1 the ");
}

// Only the losses and norms of the timed steps show it.
TEST(CompareWrong, ScaledInOneStepOnly) {
  const Result result = CompareWrong("one_step");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("error: wrong trains differently from ddp: in step 5 the norm "
                                    "of all gradients is "));
}

TEST(CompareWrong, WrongWithFourMicroBatches) {
  EXPECT_EQ(CompareWrong("four_micro_batches").code, 0);
  ExpectDifferent(CompareWrong("four_micro_batches", {"--micro_batches=4"}),
                  "is 0.25 times that with ddp");
}

// A comparison does not evaluate, so it cannot show this fault.
TEST(CompareWrong, WrongInEvaluation) { EXPECT_EQ(CompareWrong("evaluate").code, 0); }

}  // namespace
}  // namespace tessera
