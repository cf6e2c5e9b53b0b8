// Compares training in fewer bits than the model was recorded with to training in double.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

// The allowed distance of a mode of lower precision. It still detects a wrong factor.
constexpr double kTolerance = 5e-2;

TrainingRun OnCpu(TrainingRun run, int steps) {
  run.steps = steps;
  return OnCpu(std::move(run));
}

// Compares the loss and the gradients of a step on the cpu backend under this Plan with one process
// that computes in double.
void ExpectNear(const GptSizes& sizes, const Plan& plan, int ranks) {
  SCOPED_TRACE(plan.DebugString());
  TrainingRun in_double = SmallGpt(sizes);
  in_double.steps = 1;
  const auto exact = Train(in_double, Plan(), 1);
  ASSERT_TRUE(exact.ok()) << exact.status();
  TrainingRun run = OnCpu(SmallGpt(sizes), 1);
  run.check_memory = true;
  const auto result = Train(run, plan, ranks);
  ASSERT_TRUE(result.ok()) << result.status();
  // For a gradient near 0, a step of AdamW depends only on its sign, so states are not compared.
  const Difference difference = Compare({.outputs = exact->outputs, .states = {}},
                                        {.outputs = result->outputs, .states = {}});
  EXPECT_LE(difference.relative, kTolerance) << difference.where;
  EXPECT_GE(difference.relative, 1e-4) << "nothing was rounded";
}

void ExpectNear(const GptSizes& sizes, const std::string& plan) {
  ExpectNear(sizes, ParsePlan(plan), 1);
}

// Returns a Plan of docs/plans in bf16.
Plan InBf16(const std::string& file, TypeProto::DType reduction) {
  Plan plan = ReadPlanFile(file);
  PrecisionChoice& precision = *plan.mutable_stages(0)->mutable_precision();
  precision.set_parameters(TypeProto::BF16);
  precision.set_reduction(reduction);
  return plan;
}

TEST(PrecisionTrainingTest, EveryDTypeOfParametersAndReduction) {
  for (const char* precision :
       {"parameters: BF16", "parameters: BF16 reduction: BF16", "reduction: BF16",
        "parameters: BF16 in_f32: 'ln_f.*|blocks.*.ln1.*|blocks.0.mlp.*'"}) {
    ExpectNear({}, std::string("stages { precision { ") + precision + " } }");
  }
}

// After 20 steps of SGD, masters, losses and gradients are close.
TEST(PrecisionTrainingTest, TrainsAsInDouble) {
  TrainingRun in_double = SmallGpt({});
  const auto exact = Train(in_double, Plan(), 1);
  ASSERT_TRUE(exact.ok()) << exact.status();
  const auto result = Train(OnCpu(SmallGpt({}), in_double.steps),
                            ParsePlan("stages { precision { parameters: BF16 } }"), 1);
  ASSERT_TRUE(result.ok()) << result.status();
  const Difference states =
      Compare({.outputs = {}, .states = exact->states}, {.outputs = {}, .states = result->states});
  EXPECT_LE(states.relative, kTolerance) << states.where;
  EXPECT_NEAR(result->outputs.back().at("loss")[0], exact->outputs.back().at("loss")[0], 1e-2);
}

TEST(PrecisionTrainingTest, WithClippingAndAdamw) {
  GptSizes sizes;
  sizes.clip_norm = 0.1;
  sizes.optimizer = "adamw";
  sizes.untied_head = true;
  ExpectNear(sizes, "stages { precision { parameters: BF16 reduction: BF16 } }");
}

TEST(PrecisionTrainingTest, WithMicroBatchesRecomputationAndSlices) {
  for (const char* reduction : {"F32", "BF16"}) {
    ExpectNear({}, std::string(R"(stages {
        precision { parameters: BF16 reduction: )") +
                       reduction + R"( }
        slice { path: 'wte.weight' count: 3 }
        slice { path: 'blocks.*.mlp.fc.weight' count: 2 }
        parts { graph: 'train' micro_batches: 2 recompute: 'blocks.0' recompute: 'blocks.1' } })");
  }
}

// Returns the paths of the lone additions of row vectors to what a matmul computes, and of the
// casts of parameters' gradients, in a training Program.
std::vector<std::string> UnfusedWork(const Program& program) {
  Table<ProgramValueId, bool> product(program.values.size(), false);
  Table<ProgramValueId, bool> gradient(program.values.size(), false);
  for (const ProgramValueId id : program.values.ids()) {
    if (program.value(id).gradient_of != kNone) gradient[id] = true;
  }
  std::vector<std::string> unfused;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    const KernelRequest& request = program.KernelOf(instruction).request;
    if (request.op == "matmul") product[instruction.outputs[0]] = true;
    const bool adds_to_product =
        request.op == "add" && (product[instruction.inputs[0]] || product[instruction.inputs[1]]) &&
        request.inputs[0].shape != request.inputs[1].shape;
    const bool casts_gradient = request.op == "cast" && (gradient[instruction.inputs[0]] ||
                                                         gradient[instruction.outputs[0]]);
    if (adds_to_product || casts_gradient) unfused.push_back(instruction.path);
  }
  return unfused;
}

TEST(PrecisionTrainingTest, NoBiasIsAddedAloneAndNoGradientIsCast) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  GptSizes untied, accumulating;
  untied.untied_head = true;
  accumulating.micro_batches = 2;
  for (const GptSizes& sizes : {GptSizes(), untied, accumulating}) {
    for (const char* file : {"", kDataParallel, kFullySharded, kTensorParallel}) {
      SCOPED_TRACE(file);
      const bool on_ranks = *file != '\0';
      Plan plan = on_ranks ? InBf16(file, TypeProto::F32)
                           : ParsePlan("stages { precision { parameters: BF16 } }");
      PlanPart& part = *plan.mutable_stages(0)->add_parts();
      part.set_graph(kTrain);
      part.set_micro_batches(sizes.micro_batches);
      const TrainingRun run = SmallGpt(sizes);
      const auto compiled = CompileRun(run.graphs, plan, *backend, on_ranks ? 2 : 1);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      // The context is longer than the sequence, so the gradient of positions is assembled from a
      // sum and zeros.
      EXPECT_THAT(UnfusedWork(*compiled->FindProgram(kTrain)), ::testing::IsEmpty());
    }
  }
}

// Runs on ranks, also odd numbers of them, with parameters and gradients in flat groups, split or
// not.
TEST(PrecisionRanksTest, EveryPlanIsNearOneProcess) {
  for (const char* file : kAllPlans) {
    for (const int ranks : {2, 4}) {
      for (const auto reduction : {TypeProto::F32, TypeProto::BF16}) {
        ExpectNear({}, InBf16(file, reduction), ranks);
        if (HasFatalFailure()) return;
      }
    }
  }
  for (const char* file : {kDataParallel, kFullySharded}) {
    ExpectNear({}, InBf16(file, TypeProto::BF16), 1);
    ExpectNear(OddSizes(), InBf16(file, TypeProto::BF16), 3);
  }
}

TEST(PrecisionRanksTest, WithMicroBatchesRecomputationAndSlices) {
  for (const auto reduction : {TypeProto::F32, TypeProto::BF16}) {
    for (const char* file : {kDataParallel, kFullySharded}) {
      Plan plan = InBf16(file, reduction);
      Stage& stage = *plan.mutable_stages(0);
      PlanPart& part = *stage.add_parts();
      part.set_graph("train");
      part.set_micro_batches(2);
      part.add_recompute("blocks.0");
      part.add_recompute("blocks.1");
      SliceChoice& slice = *stage.add_slice();
      slice.set_path("blocks.*.mlp.fc.weight");
      slice.set_count(2);
      ExpectNear({}, plan, 2);
    }
  }
}

// Fully sharded training communicates gathered parameters and reduced gradients.
TEST(PrecisionRanksTest, GathersAndReductionsMoveHalfTheBytes) {
  const auto traffic = [](const Plan& plan) {
    const auto result = Train(OnCpu(SmallGpt({}), 1), plan, 2);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->traffic : comm::Traffic();
  };
  const comm::Traffic full = traffic(ReadPlanFile(kFullySharded));
  const comm::Traffic half = traffic(InBf16(kFullySharded, TypeProto::BF16));
  const comm::Traffic mixed = traffic(InBf16(kFullySharded, TypeProto::F32));
  const auto gather = static_cast<size_t>(CollectiveOperation::kAllGather);
  const auto reduce = static_cast<size_t>(CollectiveOperation::kReduceScatter);
  ASSERT_GT(full[gather].bytes_sent, 0);
  ASSERT_GT(full[reduce].bytes_sent, 0);
  for (const size_t operation : {gather, reduce}) {
    EXPECT_EQ(half[operation].calls, full[operation].calls);
    EXPECT_EQ(2 * half[operation].bytes_sent, full[operation].bytes_sent);
  }
  EXPECT_EQ(mixed[gather].bytes_sent, half[gather].bytes_sent);
  EXPECT_EQ(mixed[reduce].bytes_sent, full[reduce].bytes_sent);
}

// Compressed data parallel training: f32 except for the reduction, which is in buckets.
TEST(PrecisionRanksTest, DataParallelReducesInFewerBits) {
  Plan plan = ReadPlanFile(kDataParallel);
  const auto full = Train(OnCpu(SmallGpt({}), 1), plan, 2);
  ASSERT_TRUE(full.ok()) << full.status();
  plan.mutable_stages(0)->mutable_precision()->set_reduction(TypeProto::BF16);
  ExpectNear({}, plan, 2);
  const auto half = Train(OnCpu(SmallGpt({}), 1), plan, 2);
  ASSERT_TRUE(half.ok()) << half.status();
  const auto reduce = static_cast<size_t>(CollectiveOperation::kAllReduce);
  // The loss and the count of its targets are f32 scalars. Here gradients are outputs too, which in
  // f32 cannot be in buckets.
  EXPECT_LT(half->traffic[reduce].calls, full->traffic[reduce].calls);
  const int64_t saved = full->traffic[reduce].bytes_sent - half->traffic[reduce].bytes_sent;
  EXPECT_GT(saved, 0.49 * static_cast<double>(full->traffic[reduce].bytes_sent));
}

}  // namespace
}  // namespace tessera
