#include "tools/compare/same_training.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SketchedTensor Tensor(const std::string& path, const std::vector<double>& elements) {
  SketchedTensor tensor;
  tensor.path = path;
  tensor.sketch.Add(0, elements);
  return tensor;
}

// Three steps in which gradients are constant, with a learning rate of 0.1.
CheckedTraining Training(const std::string& label, const std::vector<double>& weight,
                         const std::vector<double>& bias) {
  CheckedTraining training;
  training.label = label;
  std::vector<double> w = {1, 2, 3}, b = {0, 0};
  training.initial = {Tensor("w", w), Tensor("b", b)};
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.1 * weight[i];
    for (size_t i = 0; i < b.size(); ++i) b[i] -= 0.1 * bias[i];
    training.steps.push_back({{5.5},
                              {2},
                              {Tensor("b", bias), Tensor("w", weight)},
                              {Tensor("w", w), Tensor("b", b)},
                              {}});
  }
  return training;
}

CheckedTraining Right(const std::string& label) {
  return Training(label, {1, -2, 0.5}, {0.01, 0.02});
}

std::string FaultOf(const CheckedTraining& wrong) {
  const std::vector<CheckedTraining> both = {Right("ddp"), wrong};
  const Verdict verdict = JudgeTraining(both);
  EXPECT_EQ(verdict.reference, 0);
  EXPECT_EQ(verdict.faults[0], "");
  return verdict.faults[1];
}

TEST(SameTrainingTest, RoundingIsNoFault) {
  EXPECT_EQ(FaultOf(Training("fsdp", {1 + 1e-6, -2, 0.5}, {0.01, 0.02 + 1e-8})), "");
}

TEST(SameTrainingTest, AGradientThatIsWrongIsNamed) {
  EXPECT_EQ(
      FaultOf(Training("mine", {1, -2, 0.5}, {0.02, 0.04})),
      "mine trains differently from ddp: in step 1 the gradient of b is 2 times that with ddp "
      "(1 of 2 gradients differs)");
  EXPECT_THAT(FaultOf(Training("mine", {1, -2, 0.6}, {0.01, 0.03})),
              AllOf(HasSubstr("in step 1 the gradient of b differs from that with ddp by "),
                    HasSubstr("of its norm (2 of 2 gradients differ)")));
}

TEST(SameTrainingTest, AnUpdateThatIsWrongIsNamed) {
  CheckedTraining wrong = Right("mine");
  wrong.steps[1].parameters[0] = Right("").steps[0].parameters[0];
  EXPECT_THAT(FaultOf(wrong), HasSubstr("in step 2 the update of w "));
}

TEST(SameTrainingTest, ARunningStatisticThatIsWrongIsNamed) {
  CheckedTraining right = Right("ddp"), wrong = Right("mine");
  right.steps[1].statistics = {Tensor("norm.running_mean", {1, 2})};
  wrong.steps[1].statistics = {Tensor("norm.running_mean", {2, 4})};
  const std::vector<CheckedTraining> both = {right, wrong};
  EXPECT_THAT(JudgeTraining(both).faults[1],
              HasSubstr("in step 2 the running statistic norm.running_mean is 2 times that with "
                        "ddp (1 of 1 statistic differs)"));
}

TEST(SameTrainingTest, NumbersOfAStepAreCompared) {
  CheckedTraining wrong = Right("mine");
  wrong.steps[2].loss.value = 5.6;
  EXPECT_EQ(FaultOf(wrong),
            "mine trains differently from ddp: in step 3 the loss is 5.6, and with "
            "ddp it is 5.5");
  wrong = Right("mine");
  wrong.steps[1].grad_norm.value = 2.1;
  EXPECT_THAT(FaultOf(wrong), HasSubstr("in step 2 the norm of all gradients is 2.1, and with "));
}

TEST(SameTrainingTest, RanksThatHoldTheSameMustAgree) {
  CheckedTraining wrong = Right("mine");
  wrong.steps[0].gradients[1].first_rank = 0;
  wrong.steps[0].gradients[1].rank = 3;
  wrong.steps[0].gradients[1].rank_distance = wrong.steps[0].gradients[1].sketch.norm();
  EXPECT_EQ(FaultOf(wrong),
            "mine trains differently: in step 1 the gradient of w differs between ranks 0 and 3, "
            "which hold the same elements, by 100 % of its norm (1 of 2 gradients differs)");
  wrong = Right("mine");
  wrong.steps[0].loss = NumberOfRanks({5.5, 5.5, 5.25});
  EXPECT_EQ(FaultOf(wrong),
            "mine trains differently: in step 1 the loss is 5.5 on rank 0 and 5.25 on rank 2");
}

TEST(SameTrainingTest, TheMajorityIsTheReference) {
  const std::vector<CheckedTraining> all = {Training("mine", {2, -4, 1}, {0.02, 0.04}),
                                            Right("ddp"), Right("fsdp")};
  const Verdict verdict = JudgeTraining(all);
  EXPECT_EQ(verdict.reference, 1);
  EXPECT_THAT(verdict.faults[0], HasSubstr("mine trains differently from ddp: "));
  EXPECT_EQ(verdict.faults[1], "");
  EXPECT_EQ(verdict.faults[2], "");
}

TEST(SameTrainingTest, LowerPrecisionRoundsMore) {
  CheckedTraining lowered = Training("bf16", {1.01, -2, 0.5}, {0.01, 0.0201});
  EXPECT_NE(FaultOf(lowered), "");
  lowered.rounding.lowered = true;
  EXPECT_EQ(FaultOf(lowered), "");
}

// Regression: an element of a relu next to 0 counted as a fault.
TEST(SameTrainingTest, GradientsThatJumpDifferByMore) {
  CheckedTraining other = Training("other", {1, -2.003, 0.5}, {0.01, 0.02});
  EXPECT_NE(FaultOf(other), "");
  const auto fault_of = [](CheckedTraining wrong) {
    CheckedTraining right = Right("ddp");
    right.rounding.jumps = wrong.rounding.jumps = true;
    return JudgeTraining(std::vector<CheckedTraining>{right, wrong}).faults[1];
  };
  EXPECT_EQ(fault_of(other), "");
  EXPECT_THAT(fault_of(Training("one of 16 missing", {1, -2, 0.5}, {0.01, 0.02 * 15 / 16})),
              HasSubstr("in step 1 the gradient of b "));
  other.steps[1].loss.value = 5.5002;  // of parameters that differ already
  EXPECT_EQ(fault_of(other), "");
  other.steps[0].loss.value = 5.5002;
  EXPECT_THAT(fault_of(other), HasSubstr("in step 1 the loss "));
}

LossSeries Series(const std::string& label, const std::vector<double>& losses) {
  return {label, {}, losses, std::vector<double>(losses.size(), 2)};
}

TEST(SameTrainingTest, ALossThatJumpsIsAFault) {
  const std::vector<LossSeries> series = {Series("ddp", {5, 4, 3, 2}),
                                          Series("mine", {5, 4, 3.01, 2})};
  EXPECT_EQ(JudgeSeries(series).faults[1],
            "mine trains differently from ddp: in step 3 the loss is 3.01, and with ddp it is 3");
}

TEST(SameTrainingTest, RoundingThatGrowsIsNone) {
  const std::vector<LossSeries> series = {
      Series("ddp", {5, 5, 5, 5, 5}),
      Series("fsdp", {5 + 1e-6, 5 + 1e-5, 5 + 1e-4, 5 + 1e-3, 5 + 1e-2})};
  EXPECT_THAT(JudgeSeries(series).faults, Each(IsEmpty()));
}

// Regression: a strategy that differs from itself left no reference, and the program crashed.
TEST(SameTrainingTest, NansAreTheSameAsNans) {
  const CheckedTraining nan = Training("mine", {1, std::nan(""), 0.5}, {0.01, 0.02});
  EXPECT_THAT(JudgeTraining(std::vector<CheckedTraining>{nan}).faults, Each(IsEmpty()));
  EXPECT_THAT(JudgeTraining(std::vector<CheckedTraining>{nan, nan}).faults, Each(IsEmpty()));
  EXPECT_THAT(FaultOf(nan), HasSubstr("in step 1 the gradient of w differs from that with ddp by "
                                      "elements that are not finite"));
}

// Regression: with an infinite loss or gradient on one side, everything was allowed.
TEST(SameTrainingTest, InfinityIsNotTheSameAsANumber) {
  CheckedTraining wrong = Right("mine");
  wrong.steps[0].loss.value = HUGE_VAL;
  EXPECT_THAT(FaultOf(wrong), HasSubstr("in step 1 the loss is inf, and with ddp it is 5.5"));
  for (const bool in_reference : {false, true}) {
    const CheckedTraining infinite = Training("infinite", {HUGE_VAL, -2, 0.5}, {0.01, 0.02});
    CheckedTraining finite = Right("finite");
    finite.steps[0].gradients[0] = Tensor("b", {0.02, 0.04});
    const std::vector<CheckedTraining> both = in_reference
                                                  ? std::vector<CheckedTraining>{infinite, finite}
                                                  : std::vector<CheckedTraining>{finite, infinite};
    EXPECT_THAT(JudgeTraining(both).faults[1], HasSubstr("(2 of 2 gradients differ)"));
  }
}

// Regression: ranks that both had NaNs differed.
TEST(SameTrainingTest, RanksWithNansAgree) {
  CheckedTraining training = Right("mine");
  for (CheckedStep& step : training.steps) {
    step.gradients[0] = Tensor("b", {std::nan(""), 0});
    step.gradients[0].rank = 1;  // compared with another rank, at a distance of 0
    step.grad_norm.value = std::nan("");
  }
  const std::vector<CheckedTraining> one = {training};
  EXPECT_THAT(JudgeTraining(one).faults, Each(IsEmpty()));
}

TEST(SameTrainingTest, NothingToCompare) {
  EXPECT_EQ(JudgeSeries({}).reference, -1);
  EXPECT_THAT(JudgeTraining(std::vector<CheckedTraining>{Right("ddp")}).faults, Each(IsEmpty()));
}

}  // namespace
}  // namespace tessera
