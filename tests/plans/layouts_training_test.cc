// Checks that stores and operators in unusual layouts train as one process does: splits in units,
// splits in another order than the mesh's axes, state that is laid out otherwise than its
// parameter, and empty parts.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

constexpr char kTwoByTwo[] = "mesh { name: 'a' size: 2 } mesh { name: 'b' size: 2 }";

Plan PlanOf(const std::string& mesh, const std::string& choices) {
  return ParsePlan(absl::StrCat("stages { ", mesh, choices, " }"));
}

std::string Store(const std::string& path, const std::string& layout) {
  return absl::StrCat("store { path: '", path, "' layout: '", layout, "' } ");
}

// With one layer, 16 channels, and state for each parameter.
TrainingRun AdamwGpt() {
  TrainingRun run = SmallGpt({.layers = 1, .head_dim = 4, .clip_norm = 0.5, .optimizer = "adamw"});
  run.steps = 4;
  run.check_memory = true;
  return run;
}

// Layouts of a bias [64] and of a table [8, 16]. Splits in units may hold the elements of a split
// without, of one in another order, or neither.
TEST(LayoutsTrainingTest, StoresInUnitsAndInAnotherOrder) {
  for (const char* layout : {"b: S(0, 4), a: S(0, 2)", "b: S(0), a: S(0)", "b: S(0, 3), a: S(0)",
                             "a: S(0, 32), b: S(0, 16)", "a: S(0, 5)", "b: S(0, 64)"}) {
    SCOPED_TRACE(layout);
    const std::string stores = Store("blocks.0.mlp.fc.bias", layout);
    ExpectSame(AdamwGpt(), PlanOf(kTwoByTwo, stores), {4});
  }
  for (const char* layout :
       {"b: S(0), a: S(0)", "b: S(1, 3), a: S(1, 2)", "b: S(0, 8), a: S(0, 4)", "b: S(1), a: S(0)",
        "b: S(0, 8), a: S(0)", "b: S(1, 16), a: S(1, 16)"}) {
    SCOPED_TRACE(layout);
    const std::string stores = Store("wpe.weight", layout);
    ExpectSame(AdamwGpt(), PlanOf(kTwoByTwo, stores), {4});
    ExpectSame(AdamwGpt(), PlanOf(kTwoByTwo, stores + "pass { offload {} }"), {4});
  }
}

TEST(LayoutsTrainingTest, StateThatIsLaidOutOtherwiseThanItsParameter) {
  for (const char* layout : {"a: S(1, 2)", "a: S(0, 4)", "a: S(0, 3)", "a: S(1, 16)", "B"}) {
    for (const char* state : {"B", "a: S(0)", "a: S(0, 4)", "a: S(1, 3)"}) {
      for (const char* pass : {"", "pass { offload {} }"}) {
        SCOPED_TRACE(absl::StrCat(layout, " with state ", state, pass));
        const std::string stores = Store("wpe.weight", layout) +
                                   Store("wpe.weight.adam_m|wpe.weight.adam_v", state) + pass;
        ExpectSame(AdamwGpt(), PlanOf("mesh { name: 'a' }", stores), {2});
      }
    }
  }
}

// The gradient of the product arrives split by [qkv, heads] rows and is read split by columns in
// other units, which hold the same elements.
TEST(LayoutsTrainingTest, SplitsThatHoldTheSameElements) {
  const char kReshaped[] = R"text(
    compute { path: "blocks.0.attn.qkv.reshape" signature: "a: S(0) -> S(0, 24); b: S(3) -> S(1)" }
    compute { path: "blocks.0.attn.qkv.matmul" signature: "b: B" }
    compute { path: "blocks.0.attn.qkv.add" signature: "a: S(0), B -> S(0); b: S(0), B -> S(0)" }
  )text";
  const TrainingRun run = SmallGpt({.heads = 2, .head_dim = 8});
  ExpectSame(run, PlanOf(kTwoByTwo, kReshaped), {4});
}

// A bias is added to partial sums: one rank adds it, the others zeros, and the product's kernel
// does so. The sum is completed once, with the bias in it.
TEST(LayoutsTrainingTest, ABiasIsAddedToPartialSumsByOneRank) {
  const char kRows[] = R"text(
    compute { path: "blocks.*.mlp.proj.matmul" signature: "a: S(2), S(1) -> P" }
    compute { path: "blocks.*.mlp.proj.add" signature: "a: P, P -> P" } )text";
  const Plan plan = PlanOf("mesh { name: 'a' }", kRows);
  for (const TrainingRun& run : {AdamwGpt(), SmallGpt(OddSizes())}) {
    ExpectSame(run, plan, {2, 3});
  }
  const TrainingRun run = OnCpu(SmallGpt({.layers = 1}));
  ExpectSame(run, plan, {2}, 1e-4);
  const auto backend = run.backend();
  for (const char* precision : {"", "precision { parameters: BF16 }"}) {
    SCOPED_TRACE(precision);
    const auto compiled = CompileRun(
        run.graphs, PlanOf("mesh { name: 'a' }", absl::StrCat(kRows, precision)), *backend, 2);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    int zeroed = 0, added = 0;
    for (const Instruction& instruction : compiled->FindProgram(kTrain)->instructions) {
      const bool of_bias = absl::StrContains(instruction.path, "blocks.0.mlp.proj.bias");
      if (of_bias && absl::EndsWith(instruction.path, ".zero_elsewhere")) ++zeroed;
      if (instruction.path == "blocks.0.mlp.proj.add") ++added;
    }
    EXPECT_EQ(zeroed, 1);
    EXPECT_EQ(added, 0) << "the product adds it";
  }
}

// Of 7 words over 2 x 3 ranks some ranks hold none, and neither do their neighbours along an axis.
TEST(LayoutsTrainingTest, LogSumExpOverEmptyPartsOfTheVocabulary) {
  const char kVocabulary[] = R"text(
    compute { path: "loss.linear_log_sum_exp"
               signature: "a: B, S(0), B -> P(lse), P; b: B, S(0), B -> P(lse), P" } )text";
  const std::string mesh = "mesh { name: 'a' size: 2 } mesh { name: 'b' }";
  for (const int vocabulary : {2, 5, 7}) {
    TrainingRun run = SmallGpt({.layers = 1, .batch = 2, .vocabulary = vocabulary});
    ExpectSame(run, PlanOf(mesh, kVocabulary), {4, 6, 10});
    const std::string slices = "slice { path: 'wte.weight' dimension: 0 count: 2 }";
    ExpectSame(run, PlanOf(mesh, kVocabulary + slices), {6});
    run.backend = [] { return MakeCpuBackend(1); };
    ExpectSame(run, PlanOf(mesh, kVocabulary), {6}, 1e-4);
  }
}

// The refusal names the value, the layouts, and what to change.
TEST(LayoutsTrainingTest, AValueThatCannotBeBroughtToALayoutIsNamed) {
  const char kMaxima[] =
      "compute { path: 'loss.maximum' signature: 'a: P(max), P(max) -> P(max)' }";
  const auto result = Train(AdamwGpt(), PlanOf("mesh { name: 'a' }", kMaxima), 2);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(result.status().message()),
      ::testing::AllOf(
          ::testing::HasSubstr("'loss.reduce_sum_1' in graph 'train': a value cannot be brought "
                               "from layout 'B' to 'a: P(max)'"),
          ::testing::HasSubstr("choose another layout for operator 'loss.reduce_sum_1', which "
                               "makes it, or for the operators that read it")));
}

// A value that is a sum along one axis and a minimum along another has no meaning.
TEST(LayoutsTrainingTest, AValueThatIsPartialInTwoWaysIsRefusedByName) {
  const char kMixed[] =
      "compute { path: 'blocks.0.attn.qkv.reshape' signature: 'a: P(max) -> P(max); b: P -> P' }";
  const auto result = Train(AdamwGpt(), PlanOf(kTwoByTwo, kMixed), 4);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(result.status().message()),
      ::testing::AllOf(
          ::testing::HasSubstr("operator 'blocks.0.attn.qkv.reshape' in graph 'train' "
                               "makes 'blocks.0.attn.qkv.reshape': layout 'a: P(max), b: P' "
                               "does not fit"),
          ::testing::HasSubstr("P along axis 'b' cannot be combined with P(max)"),
          ::testing::HasSubstr("choose another signature for the operator along one "
                               "of these axes, such as 'B'")));
}

}  // namespace
}  // namespace tessera
