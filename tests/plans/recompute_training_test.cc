// Checks that recomputing blocks, scopes and operators changes no bit of a training run with
// dropout, on one process and on ranks, that memory is used as planned, and that the planned peak
// is lower by the size of the activations that are not kept.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

using Paths = std::vector<std::string>;

// All of a model, or some of it, at each level.
const std::vector<Paths>& Choices() {
  static const auto* const choices =
      new std::vector<Paths>{{"blocks.*.mlp.gelu"},
                             {"blocks.*.ln1", "blocks.1.ln2"},
                             {"blocks.0.ln1.layer_norm|blocks.1.attn.proj"},
                             {"blocks.*.attn"},
                             {"blocks.*.attn.qkv"},
                             {"blocks.0.mlp", "blocks.1"},
                             {"blocks.*.ln2", "blocks.*.mlp.fc", "blocks.*.mlp.gelu"},
                             {"blocks.*.*"},
                             {"embed", "ln_f", "loss"},
                             {"blocks.0", "blocks.1"}};
  return *choices;
}

Plan WithPart(Plan plan, const Paths& recompute, int64_t micro_batches,
              PlanPart::Logits logits = PlanPart::LOGITS_UNSET) {
  if (plan.stages_size() == 0) plan.add_stages();
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(micro_batches);
  part.set_logits(logits);
  for (const std::string& path : recompute) part.add_recompute(path);
  return plan;
}

// Trains a few steps without recomputation and with each of the choices, and compares all bits.
void ExpectSameBits(TrainingRun run, const Plan& plan, int ranks, int64_t micro_batches = 1,
                    PlanPart::Logits logits = PlanPart::RECOMPUTED,
                    const std::vector<std::string>& passes = {}) {
  run.steps = 3;
  const auto with = [&](const Paths& recompute) {
    Plan complete = WithPart(plan, recompute, micro_batches, logits);
    PlanPart& part = *complete.mutable_stages(0)->mutable_parts(0);
    for (const std::string& pass : passes) part.add_passes(pass);
    return complete;
  };
  const auto plain = Train(run, with({}), ranks);
  ASSERT_TRUE(plain.ok()) << plain.status();
  run.check_memory = true;
  for (const Paths& choice : Choices()) {
    SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", micro_batches, " micro-batches, recompute ",
                              absl::StrJoin(choice, ", "), ": ", plan.ShortDebugString()));
    const auto recomputed = Train(run, with(choice), ranks);
    ASSERT_TRUE(recomputed.ok()) << recomputed.status();
    EXPECT_EQ(plain->outputs, recomputed->outputs);
    EXPECT_EQ(plain->states, recomputed->states);
  }
}

TEST(RecomputeTrainingTest, OnOneProcess) {
  for (const int64_t micro_batches : {1, 4}) {
    ExpectSameBits(SmallGpt({.clip_norm = 0.5}), Plan(), 1, micro_batches);
    ExpectSameBits(OnCpu(SmallGpt({.clip_norm = 0.5})), Plan(), 1, micro_batches);
  }
  ExpectSameBits(OnCpu(SmallGpt({})), Plan(), 1, 1, PlanPart::KEPT);
}

TEST(RecomputeTrainingTest, UnderEveryPlan) {
  for (const char* file : kAllPlans) {
    ExpectSameBits(OnCpu(SmallGpt({})), ReadPlanFile(file), 4, /*micro_batches=*/2);
  }
}

TEST(RecomputeTrainingTest, InSlices) {
  const Plan slices = StagePlan(
      "slice { path: 'blocks.*.mlp.fc.weight' dimension: 0 count: 4 } "
      "slice { path: 'blocks.*.mlp.fc.bias' dimension: 0 count: 4 } "
      "slice { path: 'blocks.*.mlp.proj.weight' dimension: 1 count: 4 }");
  ExpectSameBits(OnCpu(SmallGpt({})), slices, 1);
}

// Without fusion: a fused cast to f32 takes a result before it is rounded to 16 bits, and the cast
// of a copy is fused where that of the original, in another phase, is not.
TEST(RecomputeTrainingTest, InLowerPrecision) {
  for (const char* precision :
       {"parameters: BF16",
        "parameters: BF16 reduction: BF16 in_f32: 'blocks.*.mlp.gelu|blocks.*.ln1.*'",
        "parameters: BF16 in_f32: 'blocks.*.ln1.layer_norm'"}) {
    ExpectSameBits(OnCpu(SmallGpt({})), StagePlan(absl::StrCat("precision { ", precision, " }")), 1,
                   /*micro_batches=*/2, PlanPart::RECOMPUTED, {"order"});
  }
}

constexpr int64_t kLayers = 6, kChannels = 64, kTokens = 4 * 128;

CompiledRun Compile(const Paths& recompute, const std::string& stage = "") {
  GptConfig model;
  model.set_layers(kLayers);
  model.set_heads(4);
  model.set_channels(kChannels);
  model.set_vocabulary(256);
  model.set_context(128);
  RunConfig config;
  config.set_batch(4);
  config.set_sequence(128);
  config.mutable_optimizer()->set_kind("adamw");
  const auto graphs = RecordRun(**CreateGpt(model), config, RunGraphs::kAll);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  auto compiled =
      CompileRun(*graphs, WithPart(StagePlan(stage), recompute, 1, PlanPart::RECOMPUTED), *backend);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

int64_t SavedBytes(const Paths& recompute, const std::string& stage = "") {
  return Compile({}, stage).arena_bytes() - Compile(recompute, stage).arena_bytes();
}

// When the last block's are computed again, those of the others are not there.
TEST(RecomputePeakTest, IsLowerByAllButOneOfTheActivations) {
  const int64_t hidden = (kLayers - 1) * kTokens * kChannels * 4;  // f32
  EXPECT_GE(SavedBytes({"blocks.*.mlp.gelu"}), 4 * hidden);
  EXPECT_LE(SavedBytes({"blocks.*.mlp.gelu"}), 4 * hidden * kLayers / (kLayers - 1));
  EXPECT_GE(SavedBytes({"blocks.*.ln1"}), hidden);
  EXPECT_GE(SavedBytes({"blocks.*.ln1", "blocks.*.ln2"}), 2 * hidden);
  EXPECT_GE(SavedBytes({"blocks.*.mlp.gelu|blocks.*.ln1|blocks.*.ln2"}), 6 * hidden);
  EXPECT_GT(SavedBytes({"blocks"}), SavedBytes({"blocks.*.mlp"}));
}

TEST(RecomputePeakTest, IsLowerByHalfOfThatIn16Bits) {
  const int64_t hidden = (kLayers - 1) * kTokens * kChannels * 2;
  const std::string bf16 = "precision { parameters: BF16 }";
  EXPECT_GE(SavedBytes({"blocks.*.mlp.gelu"}, bf16), 4 * hidden);
  EXPECT_GE(SavedBytes({"blocks.*.ln1", "blocks.*.ln2"}, bf16), 2 * hidden);
}

// Only GELU's kernel runs again, between the ops of the backward pass of its block: the products
// before and after it do not, whatever is fused.
TEST(RecomputePeakTest, RunsNoProductAgain) {
  const CompiledRun run = Compile({"blocks.*.mlp.gelu"});
  const Program& program = *run.FindProgram(kTrain);
  std::vector<std::string> paths;
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    if (!instruction.recomputed) continue;
    EXPECT_EQ(program.KernelOf(instruction).request.op, "gelu");
    EXPECT_TRUE(instruction.fused_paths.empty());
    paths.push_back(instruction.path);
  }
  EXPECT_THAT(paths, ElementsAre("blocks.5.mlp.gelu.recomputed", "blocks.4.mlp.gelu.recomputed",
                                 "blocks.3.mlp.gelu.recomputed", "blocks.2.mlp.gelu.recomputed",
                                 "blocks.1.mlp.gelu.recomputed", "blocks.0.mlp.gelu.recomputed"));
}

}  // namespace
}  // namespace tessera
