// Checks that training with parameters, gradients and optimizer state in host memory gives the same
// bits as without, and uses memory as planned.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/conformance/compare_training.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

using Tensors = std::vector<PassChoice::Offload::Tensors>;

constexpr auto kParameters = PassChoice::Offload::PARAMETERS;
constexpr auto kGradients = PassChoice::Offload::GRADIENTS;
constexpr auto kOptimizerState = PassChoice::Offload::OPTIMIZER_STATE;
const Tensors kAll = {kParameters, kGradients, kOptimizerState};

Plan Offloaded(Plan plan, const Tensors& tensors, int distance = 1) {
  Stage& stage = plan.stages_size() > 0 ? *plan.mutable_stages(0) : *plan.add_stages();
  PassChoice::Offload& pass = *stage.add_pass()->mutable_offload();
  for (const auto each : tensors) pass.add_tensors(each);
  pass.set_distance(distance);
  return plan;
}

Plan WithPart(Plan plan, int micro_batches, bool recompute) {
  if (plan.stages_size() == 0) plan.add_stages();
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(micro_batches);
  if (recompute) part.add_recompute("blocks.0");
  return plan;
}

TrainingRun SmallRun(const GptSizes& sizes) {
  TrainingRun run = SmallGpt(sizes);
  run.steps = 4;
  run.backend = [] { return MakeCpuBackend(1); };
  run.check_memory = true;
  return run;
}

// Trains with the Plan, and with tensors offloaded: bits are the same, and memory is used as
// planned.
void ExpectSameBits(const TrainingRun& run, const Plan& plan, int ranks,
                    const std::vector<Tensors>& tensors = {kAll}, int distance = 1) {
  const auto expected = Train(run, plan, ranks);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const Tensors& each : tensors) {
    const Plan offloaded = Offloaded(plan, each, distance);
    SCOPED_TRACE(offloaded.ShortDebugString() + " on " + std::to_string(ranks));
    const auto result = Train(run, offloaded, ranks);
    ASSERT_TRUE(result.ok()) << result.status();
    const Difference difference = Compare(*expected, *result);
    EXPECT_EQ(difference.relative, 0) << difference.where;
  }
}

TEST(OffloadTest, OneProcess) {
  const TrainingRun run = SmallRun({.clip_norm = 0.5, .optimizer = "adamw"});
  ExpectSameBits(run, Plan(), 1, {{kParameters}, {kGradients}, {kOptimizerState}, kAll});
  ExpectSameBits(run, WithPart(Plan(), 2, /*recompute=*/true), 1, {kAll, {kGradients}});
}

TEST(OffloadTest, AnyDistance) {
  const TrainingRun run = SmallRun({.clip_norm = 0.5, .optimizer = "adamw"});
  for (const int distance : {2, 3, 7, 1000}) {
    ExpectSameBits(run, WithPart(Plan(), 2, /*recompute=*/false), 1, {kAll}, distance);
    ExpectSameBits(run, ReadPlanFile(kFullySharded), 2, {kAll}, distance);
  }
}

TEST(OffloadTest, DataParallel) {
  const TrainingRun run = SmallRun({.clip_norm = 0.5, .optimizer = "adamw"});
  const Plan plan = ReadPlanFile(kDataParallel);
  for (const int ranks : {2, 4}) {
    ExpectSameBits(run, plan, ranks, {{kParameters}, {kGradients}, {kOptimizerState}, kAll});
    ExpectSameBits(run, WithPart(plan, 2, /*recompute=*/true), ranks);
  }
}

TEST(OffloadTest, FullySharded) {
  const TrainingRun run = SmallRun({.clip_norm = 0.5, .optimizer = "adamw"});
  const Plan plan = ReadPlanFile(kFullySharded);
  for (const int ranks : {2, 4}) {
    ExpectSameBits(run, plan, ranks, {{kParameters}, {kGradients}, {kOptimizerState}, kAll});
    ExpectSameBits(run, WithPart(plan, 2, /*recompute=*/true), ranks);
  }
}

// Shards are padded and uneven, and members of groups are also split over other axes.
TEST(OffloadTest, OddSizesUnderAllPlans) {
  TrainingRun run = SmallRun(OddSizes());
  run.steps = 2;
  for (const char* plan : kAllPlans) {
    SCOPED_TRACE(plan);
    ExpectSameBits(run, ReadPlanFile(plan), 4);
  }
}

TEST(OffloadTest, Bf16) {
  Plan plan = ReadPlanFile(kFullySharded);
  plan.mutable_stages(0)->mutable_precision()->set_parameters(TypeProto::BF16);
  ExpectSameBits(SmallRun({.clip_norm = 0.5, .optimizer = "adamw"}), plan, 2);
}

// Compiles a GPT of 6 blocks, so that one block is a small part of the model.
CompiledRun Compiled(const Plan& plan, int ranks) {
  GptConfig model;
  model.set_layers(6);
  model.set_heads(2);
  model.set_channels(64);
  model.set_vocabulary(61);
  model.set_context(8);
  RunConfig config;
  config.set_batch(8);
  config.set_sequence(6);
  config.mutable_optimizer()->set_kind("adamw");
  const auto created = CreateGpt(model);
  EXPECT_TRUE(created.ok()) << created.status();
  auto graphs = RecordRun(**created, config, RunGraphs::kAll);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  auto run = CompileRun(*std::move(graphs), plan, *backend, ranks);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

int64_t DeviceBytes(const CompiledRun& run) {
  return run.arenas[MemorySpace::kDevice] + run.arenas[MemorySpace::kShared];
}
int64_t HostBytes(const CompiledRun& run) { return run.arenas[MemorySpace::kOffloadHost]; }

int64_t LargestStateBytes(const CompiledRun& run) {
  int64_t largest = 0;
  for (const Buffer& buffer : run.FindProgram(kTrain)->buffers) {
    if (buffer.state) largest = std::max(largest, buffer.bytes);
  }
  return largest;
}

TEST(OffloadTest, DeviceMemoryFallsByWhatIsOffloaded) {
  for (const char* file : {kDataParallel, kFullySharded}) {
    SCOPED_TRACE(file);
    Plan plan = ReadPlanFile(file);
    // A bucket is copied at once, and is a small part of all gradients.
    for (PassChoice& pass : *plan.mutable_stages(0)->mutable_pass()) {
      if (!pass.has_bucket_gradients()) continue;
      pass.mutable_bucket_gradients()->set_cap_mib(1.0 / 16);
      pass.mutable_bucket_gradients()->set_first_mib(1.0 / 16);
    }
    const CompiledRun without = Compiled(plan, 2);
    EXPECT_EQ(HostBytes(without), 0);
    const CompiledRun optimizer = Compiled(Offloaded(plan, {kOptimizerState}), 2);
    // Both moments of the parameters that are updated, of those before and of those after them.
    const int64_t staged = 3 * 2 * LargestStateBytes(without);
    EXPECT_LE(DeviceBytes(optimizer), DeviceBytes(without) - HostBytes(optimizer) + staged);
    EXPECT_EQ(optimizer.state_bytes, without.state_bytes);

    // All state except scalars is on the host, followed by the gradients.
    const CompiledRun all = Compiled(Offloaded(plan, kAll), 2);
    const int64_t parameters = HostBytes(optimizer) / 2;
    EXPECT_EQ(HostBytes(all), 4 * parameters);
    EXPECT_EQ(all.state_bytes, without.state_bytes);
    EXPECT_LE(all.state_bytes - 3 * parameters, 64);
    // Staged copies take less than a tenth of it.
    EXPECT_LT(DeviceBytes(all), DeviceBytes(without) - 0.9 * all.state_bytes);
    std::cout << DeviceBytes(without) << " bytes, with moments on the host "
              << DeviceBytes(optimizer) << ", with all " << DeviceBytes(all) << "\n";
  }
}

// The gradients of a micro-batch stay on the host until those of later ones are added.
TEST(OffloadTest, GradientsOfMicroBatchesWaitOnTheHost) {
  const Plan plan = WithPart(Plan(), 4, /*recompute=*/false);
  const CompiledRun without = Compiled(plan, 1), with = Compiled(Offloaded(plan, {kGradients}), 1);
  std::cout << DeviceBytes(without) << " -> " << DeviceBytes(with) << " host " << HostBytes(with)
            << "\n";
  EXPECT_LT(DeviceBytes(with), DeviceBytes(without));
}

// A recorded Graph updates all parameters; one that was written by hand may omit some.
TEST(OffloadTest, AGroupOfWhichAStepUpdatesSomeMembersIsRefused) {
  Graph graph(kTrain);
  const Tensor first = graph.Parameter("first", {8}, Initializer::Constant(1));
  const Tensor second = graph.Parameter("second", {8}, Initializer::Constant(1));
  graph.SetOutput("product", Multiply(first, second));
  graph.set_phase(Phase::kUpdate);
  graph.SetState("first", Add(first, first));
  const Plan plan = ParsePlan(R"(stages {
    mesh { name: "data" }
    group { path: "first|second" over: "data" }
  })");
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const auto compiled = CompileRun({graph}, plan, *backend, 2, nullptr);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const absl::Status refused =
      CompileRun({graph}, Offloaded(plan, {kParameters}), *backend, 2, nullptr).status();
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_EQ(refused.message(),
            "pass 'offload': program 'train' updates 1 of the 2 members of the group of first; a "
            "group that is offloaded needs all or none");
}

// The documented Plan is the fully sharded one with the pass.
TEST(OffloadTest, TheDocumentedPlan) {
  TrainingRun run = SmallRun({.clip_norm = 0.5, .optimizer = "adamw"});
  const auto expected = Train(run, ReadPlanFile(kFullySharded), 2);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto result = Train(run, ReadPlanFile(kOffloaded), 2);
  ASSERT_TRUE(result.ok()) << result.status();
  const Difference difference = Compare(*expected, *result);
  EXPECT_EQ(difference.relative, 0) << difference.where;
}

// A state has the same address in all Programs of a run.
TEST(OffloadTest, StatesLieWhereTheyAreInAllPrograms) {
  const CompiledRun run = Compiled(Offloaded(ReadPlanFile(kFullySharded), kAll), 2);
  ASSERT_GT(run.programs.size(), 2u);
  std::map<std::string, ArenaAddress> addresses;
  for (const Program& program : run.programs) {
    for (const Buffer& buffer : program.buffers) {
      if (!buffer.state) continue;
      const ArenaAddress address = {buffer.space, buffer.offset};
      const auto [known, added] = addresses.try_emplace(buffer.path, address);
      EXPECT_EQ(known->second, address) << program.name << ": " << buffer.path;
      EXPECT_EQ(address.space == MemorySpace::kOffloadHost, buffer.bytes > 8) << buffer.path;
    }
  }
}

}  // namespace
}  // namespace tessera
