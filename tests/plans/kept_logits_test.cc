// Checks that kept logits change no bit of a training run, on one process and on ranks that split
// the rows or the vocabulary, and that a step uses memory as planned.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Plan WithLogits(Plan plan, PlanPart::Logits logits, int64_t micro_batches = 1) {
  if (plan.stages_size() == 0) plan.add_stages();
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(micro_batches);
  part.set_logits(logits);
  return plan;
}

// Trains a few steps with kept and with recomputed logits, and compares all bits.
void ExpectSameBits(TrainingRun run, const Plan& plan, int ranks, int64_t micro_batches = 1) {
  SCOPED_TRACE(
      absl::StrCat(ranks, " ranks, ", micro_batches, " micro-batches: ", plan.ShortDebugString()));
  run.steps = 3;
  const auto recomputed = Train(run, WithLogits(plan, PlanPart::RECOMPUTED, micro_batches), ranks);
  ASSERT_TRUE(recomputed.ok()) << recomputed.status();
  run.check_memory = true;
  const auto kept = Train(run, WithLogits(plan, PlanPart::KEPT, micro_batches), ranks);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->outputs, recomputed->outputs);
  EXPECT_EQ(kept->states, recomputed->states);
}

TEST(KeptLogitsTest, OnOneProcess) {
  for (const int64_t micro_batches : {1, 2, 4}) {
    ExpectSameBits(SmallGpt({.clip_norm = 0.5}), Plan(), 1, micro_batches);
    ExpectSameBits(OnCpu(SmallGpt({.clip_norm = 0.5})), Plan(), 1, micro_batches);
  }
  ExpectSameBits(OnCpu(SmallGpt(OddSizes())), Plan(), 1, /*micro_batches=*/5);
  ExpectSameBits(OnCpu(SmallMlp()), Plan(), 1);
}

// Rows are split by some Plans, and the vocabulary by others. Of odd sizes, parts are uneven.
TEST(KeptLogitsTest, UnderEveryPlan) {
  for (const char* file : kAllPlans) {
    const Plan plan = ReadPlanFile(file);
    ExpectSameBits(SmallGpt({}), plan, 4);
    ExpectSameBits(OnCpu(SmallGpt({})), plan, 4, /*micro_batches=*/2);
    ExpectSameBits(SmallGpt(OddSizes()), plan, 4);
    ExpectSameBits(OnCpu(SmallGpt(OddSizes())), plan, 8);
  }
}

TEST(KeptLogitsTest, InSlicesOfTheVocabulary) {
  const Plan slices = StagePlan("slice { path: 'wte.weight' dimension: 0 count: 4 }");
  for (const int64_t micro_batches : {1, 2}) {
    ExpectSameBits(SmallGpt({}), slices, 1, micro_batches);
    ExpectSameBits(OnCpu(SmallGpt({})), slices, 1, micro_batches);
  }
}

TEST(KeptLogitsTest, InLowerPrecision) {
  for (const char* precision : {"parameters: BF16", "parameters: BF16 reduction: BF16",
                                "parameters: BF16 in_f32: 'loss.*'"}) {
    Plan plan = StagePlan(absl::StrCat("precision { ", precision, " }"));
    ExpectSameBits(OnCpu(SmallGpt({})), plan, 1, /*micro_batches=*/2);
    plan.mutable_stages(0)->MergeFrom(ReadPlanFile(kTensorParallel).stages(0));
    ExpectSameBits(OnCpu(SmallGpt({})), plan, 2);
  }
}

// Forward and backward pass compute the loss in different layouts: the logits are redistributed.
TEST(KeptLogitsTest, ReadInAnotherLayout) {
  Plan plan = ReadPlanFile(kTensorParallel);
  plan.mutable_stages(0)->MergeFrom(
      StagePlan("compute { path: 'loss.linear_log_sum_exp.backward.linear_log_sum_exp_grad' "
                "signature: 'model: S(0), S(0), S(0), B, S(0), S(0) -> S(0), P' }")
          .stages(0));
  ExpectSameBits(SmallGpt({}), plan, 2);
  ExpectSameBits(SmallGpt(OddSizes()), plan, 4);
}

// Returns the text of the training Program of a rank.
std::string ProgramOf(const std::string& file, PlanPart::Logits logits, int ranks) {
  const TrainingRun run = SmallGpt({});
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const auto compiled =
      CompileRun(run.graphs, WithLogits(ReadPlanFile(file), logits), *backend, ranks);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? compiled->FindProgram("train")->ToString() : "";
}

// A rank keeps those of its own rows or words alone: of 8 x 6 rows and 24 words.
TEST(KeptLogitsTest, ARankKeepsItsPart) {
  const std::string logits = "%loss.linear_log_sum_exp.logits: f32";
  EXPECT_THAT(ProgramOf(kDataParallel, PlanPart::KEPT, 4), HasSubstr(logits + "[2, 6, 24]"));
  EXPECT_THAT(ProgramOf(kTensorParallel, PlanPart::KEPT, 4), HasSubstr(logits + "[8, 6, 6]"));
  EXPECT_THAT(ProgramOf(kDataTensorParallel, PlanPart::KEPT, 4), HasSubstr(logits + "[4, 6, 12]"));
  EXPECT_THAT(ProgramOf(kDataParallel, PlanPart::RECOMPUTED, 4), Not(HasSubstr(logits)));
}

}  // namespace
}  // namespace tessera
