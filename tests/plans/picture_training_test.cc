// Checks that a network on pictures, with crops, flips, dropout and smoothed labels, trains under
// Plans as on one process: ranks and micro-batches draw the same, and the loss may be split by rows
// or by classes, and an MLP on pictures by its hidden units.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/plan/testing/completion.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

constexpr char kSplitBatch[] = "store { path: 'pictures|labels' layout: 'data: S(0)' } ";
constexpr char kSplitClasses[] =
    "store { path: 'head.weight|head.bias' layout: 'model: S(0)' } "
    "compute { path: 'head.matmul' signature: 'model: B, S(0) -> S(1)' } "
    "compute { path: 'head.add' signature: 'model: S(1), S(0) -> S(1)' } "
    "compute { path: 'loss.log_sum_exp' signature: 'model: S(1), B -> P(lse), P' } ";

std::string MicroBatches(int count) {
  return absl::StrCat("parts { graph: 'train' micro_batches: ", count, " } ");
}

TrainingRun Pictures(int batch = 6) {
  TrainingRun run = SmallVgg({.batch = batch});
  run.steps = 4;
  run.check_memory = true;
  return run;
}

TEST(PictureTrainingTest, SplitByRows) {
  const std::string split = absl::StrCat("mesh { name: 'data' } ", kSplitBatch);
  ExpectSame(Pictures(), StagePlan(split), {1, 2, 3, 4, 8});
  ExpectSame(OnCpu(Pictures()), StagePlan(split), {3, 4}, 1e-4);
}

TEST(PictureTrainingTest, InMicroBatches) {
  const std::string split = absl::StrCat("mesh { name: 'data' } ", kSplitBatch);
  for (const int count : {2, 3, 6}) ExpectSame(Pictures(), StagePlan(MicroBatches(count)), {1});
  ExpectSame(Pictures(12), StagePlan(split + MicroBatches(3)), {2, 3});
}

// The 7 classes are unequal parts on 4 ranks, and one of 8 ranks has none.
TEST(PictureTrainingTest, SplitByClasses) {
  const std::string split = absl::StrCat("mesh { name: 'model' } ", kSplitClasses);
  ExpectSame(Pictures(), StagePlan(split), {1, 2, 4, 8});
  ExpectSame(Pictures(), StagePlan(split + MicroBatches(2)), {2, 3});
  ExpectSame(OnCpu(Pictures()), StagePlan(split), {3}, 1e-4);
  ExpectSame(Pictures(), StagePlan("slice { path: 'head.weight' dimension: 0 count: 2 }"), {1});
}

TEST(PictureTrainingTest, SplitByRowsAndClasses) {
  const std::string meshes = "mesh { name: 'data' size: 2 } mesh { name: 'model' } ";
  ExpectSame(Pictures(), StagePlan(absl::StrCat(meshes, kSplitBatch, kSplitClasses)), {4, 6});
}

// In bf16 the losses of rows are f32, so that the mean is that of a run in f32 up to the rounding
// of logits.
TEST(PictureTrainingTest, InBf16) {
  TrainingRun run = Pictures();
  run.steps = 1;
  const auto exact = Train(run, Plan(), 1);
  ASSERT_TRUE(exact.ok()) << exact.status();
  for (const char* split : {"", kSplitClasses}) {
    const Plan plan = StagePlan(absl::StrCat(*split == 0 ? "" : "mesh { name: 'model' } ", split,
                                             "precision { parameters: BF16 } "));
    const auto rounded = Train(OnCpu(run), plan, *split == 0 ? 1 : 2);
    ASSERT_TRUE(rounded.ok()) << rounded.status();
    EXPECT_NEAR(rounded->outputs[0].at("loss")[0], exact->outputs[0].at("loss")[0], 2e-3);
    const Difference difference = Compare({.outputs = exact->outputs, .states = {}},
                                          {.outputs = rounded->outputs, .states = {}});
    EXPECT_LE(difference.relative, 5e-2) << difference.where;
    EXPECT_GE(difference.relative, 1e-4) << "nothing was rounded";
  }
}

// The shape of MLP-A and MLP-B, one hidden layer, is split over its hidden units: by rows of the
// first weight and by columns of the second one, whose product is partial.
constexpr char kSplitHidden[] =
    "store { path: 'layers.0.*' layout: 'model: S(0)' } "
    "compute { path: 'layers.0.matmul' signature: 'model: B, S(0) -> S(1)' } "
    "store { path: 'layers.1.weight' layout: 'model: S(1)' } "
    "compute { path: 'layers.1.matmul' signature: 'model: S(1), S(1) -> P' } ";

TEST(PictureMlpTrainingTest, SplitByHiddenUnits) {
  const std::string split = absl::StrCat("mesh { name: 'model' } ", kSplitHidden);
  ExpectSame(SmallPictureMlp(), StagePlan(split), {1, 2, 3, 4, 8});
  ExpectSame(SmallPictureMlp(), StagePlan(split + kSplitClasses), {2, 4});
  ExpectSame(OnCpu(SmallPictureMlp()), StagePlan(split), {2, 3}, 1e-4);
}

TEST(PictureMlpTrainingTest, SplitByRowsAndHiddenUnits) {
  const std::string meshes = "mesh { name: 'data' size: 2 } mesh { name: 'model' } ";
  ExpectSame(SmallPictureMlp(), StagePlan(absl::StrCat(meshes, kSplitBatch, kSplitHidden)), {4, 6});
}

}  // namespace
}  // namespace tessera
