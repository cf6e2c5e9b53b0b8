// Checks that parameters in slices, under every Plan, train as one process does without slices.
#include <string>
#include <vector>

#include "absl/strings/match.h"
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

using ::testing::ElementsAre;

constexpr char kSliced[] = "docs/plans/sliced.textproto";

// Slices of every large weight of GPT: along rows and columns, used by products, the embedding and
// the loss, and rearranged before their use; some slices are shorter than others.
constexpr char kSlices[] = R"text(
    slice { path: "wte.weight" dimension: 0 count: 4 }
    slice { path: "wpe.weight" dimension: 1 count: 2 }
    slice { path: "blocks.*.attn.qkv.weight" dimension: 0 count: 2 }
    slice { path: "blocks.*.attn.proj.weight" dimension: 1 count: 2 }
    slice { path: "blocks.*.mlp.fc.*" dimension: 0 count: 4 }
    slice { path: "blocks.*.mlp.proj.weight" dimension: 1 count: 5 })text";

constexpr char kMicroBatchesAndRecomputation[] = R"text(
    parts { graph: "train" micro_batches: 2 recompute: "blocks.0" recompute: "blocks.1" })text";

// Parameters are split in time on one process: with accumulation, recomputation, clipping.
TEST(SlicesTrainingTest, SlicesWithoutRanks) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const TrainingRun run = SmallGpt({.clip_norm = 0.5, .optimizer = optimizer});
    ExpectSame(run, ParsePlan(absl::StrCat("stages { ", kSlices, "}")), {1});
    ExpectSame(run,
               ParsePlan(absl::StrCat("stages { ", kSlices, kMicroBatchesAndRecomputation, "}")),
               {1});
  }
}

Plan WithSlices(const std::string& file, absl::string_view stage) {
  Plan plan = ReadPlanFile(file);
  plan.mutable_stages(0)->MergeFrom(ParsePlan(absl::StrCat("stages { ", stage, "}")).stages(0));
  return plan;
}

// Some slices of a weight are stored split, the others replicated.
constexpr char kTwoOfFourSlicesSplit[] = R"text(
    slice { path: "blocks.*.mlp.fc.weight" dimension: 0 count: 4 }
    slice { path: "blocks.*.mlp.proj.weight" dimension: 1 count: 4 }
    store { path: "blocks.*.mlp.fc.weight[0:8]|blocks.*.mlp.fc.weight[8:16]" layout: "data: S(0)" }
    store { path: "blocks.*.mlp.proj.weight[8:16]|blocks.*.mlp.proj.weight[24:32]"
            layout: "data: S(1)" })text";

TEST(SlicesTrainingTest, WeightsInFourSlicesTwoStoredSplitAndTwoReplicated) {
  ExpectSame(SmallGpt({}), WithSlices(kDataParallel, kTwoOfFourSlicesSplit), {1, 2, 4, 8});
  const TrainingRun run = SmallGpt({.clip_norm = 0.5, .optimizer = "adamw"});
  ExpectSame(run, WithSlices(kDataParallel, kTwoOfFourSlicesSplit), {3});
  ExpectSame(
      run,
      WithSlices(kDataParallel, absl::StrCat(kTwoOfFourSlicesSplit, kMicroBatchesAndRecomputation)),
      {2, 4});
}

TEST(SlicesTrainingTest, SlicedGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kSliced, {1, 2, 4});
}

TEST(SlicesTrainingTest, AllPlansWithSlices) {
  const TrainingRun run = SmallGpt({.clip_norm = 0.5, .optimizer = "adamw"});
  for (const char* plan :
       {kDataParallel, kFullySharded, kHybridSharded, kTensorParallel, kDataTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithSlices(plan, kSlices), {4});
    ExpectSame(run, WithSlices(plan, absl::StrCat(kSlices, kMicroBatchesAndRecomputation)), {4});
  }
}

TEST(SlicesTrainingTest, SlicesUseMemoryAsPlanned) {
  TrainingRun run = SmallGpt({.clip_norm = 0.5, .optimizer = "adamw"});
  run.steps = 1;
  run.check_memory = true;
  for (const char* plan : {kDataParallel, kFullySharded, kTensorParallel}) {
    const auto result = Train(run, WithSlices(plan, R"text(
        slice { path: "wte.weight" dimension: 0 count: 3 }
        slice { path: "blocks.*.attn.qkv.weight" dimension: 0 count: 2 }
        slice { path: "blocks.*.mlp.proj.weight" dimension: 1 count: 4 })text"),
                              2);
    EXPECT_TRUE(result.ok()) << plan << ": " << result.status();
  }
}

TEST(SlicesTrainingTest, SlicesOnTheCpuBackend) {
  TrainingRun run = SmallGpt({.clip_norm = 0.5});
  run.backend = [] { return MakeCpuBackend(1); };
  ExpectSame(run, ParsePlan(absl::StrCat("stages { ", kSlices, "}")), {1}, 1e-5);
  for (const char* plan : {kDataParallel, kFullySharded, kTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithSlices(plan, kSlices), {2}, 1e-5);
  }
}

// A product that cannot be written into a part of a larger tensor is copied there before the next
// slice is computed.
TEST(SlicesTrainingTest, SlicesAreAssembledAsTheyAreMade) {
  const auto backend = MakeCpuBackend(1);
  const auto compiled = CompileRun(
      SmallGpt({}).graphs,
      ParsePlan("stages { slice { path: 'blocks.0.mlp.fc.weight' count: 2 } }"), *backend);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Program& program = *compiled->FindProgram("train");
  std::vector<std::string> made;
  for (const Instruction& instruction : program.instructions) {
    const std::string& path = program.value(instruction.outputs[0]).path;
    if (absl::StartsWith(path, "blocks.0.mlp.fc.matmul")) made.push_back(path);
  }
  EXPECT_THAT(made, ElementsAre("blocks.0.mlp.fc.matmul[0:16]", "blocks.0.mlp.fc.matmul.part0",
                                "blocks.0.mlp.fc.matmul[16:32]", "blocks.0.mlp.fc.matmul.part1"));
}

TEST(SlicesTrainingTest, SlicesOfOddSizes) {
  const TrainingRun run = SmallGpt(OddSizes());
  for (const char* plan : {kDataParallel, kFullySharded, kTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithSlices(plan, R"text(
        slice { path: "wte.weight" dimension: 0 count: 4 }
        slice { path: "blocks.*.attn.qkv.weight" dimension: 0 count: 2 }
        slice { path: "blocks.*.mlp.fc.weight" dimension: 0 count: 7 })text"),
               {3});
  }
}

}  // namespace
}  // namespace tessera
