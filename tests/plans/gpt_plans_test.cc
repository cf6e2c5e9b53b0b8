// Checks the Plans of docs/plans, completed for a GPT as the training tool records it.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/compile/compile.h"
#include "core/kernels/reference/backend.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

std::vector<Graph> RecordGpt(int layers, int heads, int head_dim, int batch) {
  GptConfig model_config;
  model_config.set_layers(layers);
  model_config.set_heads(heads);
  model_config.set_channels(heads * head_dim);
  model_config.set_vocabulary(61);
  model_config.set_context(16);
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(12);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_sample()->set_tokens(4);
  const auto model = CreateGpt(model_config);
  EXPECT_TRUE(model.ok()) << model.status();
  auto graphs = RecordRun(**model, config, RunGraphs::kAll);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  return *std::move(graphs);
}

constexpr int kTrainPart = 1, kGeneratePart = 3;

TEST(GptPlansTest, DataParallel) {
  const std::vector<Graph> graphs = RecordGpt(2, 3, 5, 6);
  const Plan plan = Completed(ReadPlanFile("docs/plans/data_parallel.textproto"), graphs, 4);
  EXPECT_EQ(StoreLines(plan, ""), "targets: data: S(0)\ntokens: data: S(0)\n");
  EXPECT_EQ(OperatorLines(plan, kTrainPart, {"blocks.1.attn.qkv.matmul", "update.all_finite"}),
            R"(blocks.1.attn.qkv.matmul: data: S(0), B -> S(0)
blocks.1.attn.qkv.matmul.backward.matmul: data: S(0), B -> S(0)
blocks.1.attn.qkv.matmul.backward.matmul_1: data: S(0), S(0) -> P
update.all_finite: data: B
)");
  // One token is the same on every rank.
  for (const ComputeChoice& choice : plan.stages(0).parts(kGeneratePart).compute()) {
    EXPECT_EQ(choice.signature(), "data: B") << choice.path();
  }
}

TEST(GptPlansTest, FullySharded) {
  const std::vector<Graph> graphs = RecordGpt(2, 3, 5, 6);
  const Plan plan = Completed(ReadPlanFile("docs/plans/fully_sharded.textproto"), graphs, 4);
  ASSERT_EQ(plan.stages(0).group_size(), 3);
  EXPECT_EQ(plan.stages(0).group(1).path().substr(0, 38), "blocks.1.ln1.weight|blocks.1.ln1.bias|");
  int flat = 0;
  for (const ComputeChoice& choice : plan.stages(0).parts(kTrainPart).compute()) {
    if (choice.signature() == "data: flat") ++flat;
  }
  EXPECT_EQ(flat, 2 * 28);  // each parameter's norm and update
}

TEST(GptPlansTest, HybridSharded) {
  const std::vector<Graph> graphs = RecordGpt(1, 3, 5, 6);
  const Plan plan = Completed(ReadPlanFile("docs/plans/hybrid_sharded.textproto"), graphs, 8);
  EXPECT_EQ(plan.stages(0).mesh(1).size(), 4);
  EXPECT_EQ(
      OperatorLines(plan, kTrainPart, {"mlp.fc.matmul.backward.matmul_1", "fc.bias.adamw"}),
      R"(blocks.0.mlp.fc.matmul.backward.matmul_1: replica: S(0), S(0) -> P; shard: S(0), S(0) -> P
blocks.0.mlp.fc.bias.adamw_update: replica: B; shard: flat
)");
}

// Returns the paths of the collectives within block 1 in a phase.
std::vector<std::string> CollectivesOfBlock(const Program& program, Phase phase) {
  std::vector<std::string> paths;
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction) || instruction.phase != phase) continue;
    if (InScope(instruction.path, "blocks.1")) paths.push_back(instruction.path);
  }
  return paths;
}

// Expects two collectives in each direction, and none in attention.
TEST(GptPlansTest, TensorParallelCommunicatesTwicePerBlockAndDirection) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto run = CompileRun(RecordGpt(2, 4, 4, 6),
                              ReadPlanFile("docs/plans/tensor_parallel.textproto"), *backend, 4);
  ASSERT_TRUE(run.ok()) << run.status();
  const Program& program = *run->FindProgram(kTrain);
  EXPECT_THAT(
      CollectivesOfBlock(program, Phase::kForward),
      ElementsAre("blocks.1.attn.proj.matmul.all_reduce", "blocks.1.mlp.proj.matmul.all_reduce"));
  EXPECT_THAT(CollectivesOfBlock(program, Phase::kBackward),
              ElementsAre("blocks.1.ln2.layer_norm.grad.all_reduce",
                          "blocks.1.ln1.layer_norm.grad.all_reduce"));
}

CompiledRun CompiledWith(const std::string& stage, const Backend& backend, int ranks) {
  auto run =
      CompileRun(RecordGpt(2, 4, 32, 4),
                 ParsePlan(absl::StrCat("stages { mesh { name: 'data' } "
                                        "store { path: 'tokens|targets' layout: 'data: S(0)' }",
                                        stage, "}")),
                 backend, ranks);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

// Returns the largest number of buffers that hold gathered values of this parameter, or of its
// slices, at one time.
int MostGathered(const Program& program, const std::string& parameter) {
  int most = 0;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    most = std::max<int>(most, absl::c_count_if(program.buffers, [&](const Buffer& buffer) {
                           return absl::StartsWith(buffer.path, parameter) &&
                                  absl::EndsWith(buffer.path, ".all_gather") && buffer.first <= i &&
                                  i <= buffer.last;
                         }));
  }
  return most;
}

// If large weights are stored split and gathered slice by slice, the planned peak is smaller by
// most of a weight. Training is an exception: its peak is at the end of the backward pass, after
// all gathers.
TEST(GptPlansTest, OneSliceIsGatheredAtATime) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::string stores = R"text(
    store { path: "blocks.*.mlp.fc.weight" layout: "data: S(0)" }
    store { path: "blocks.*.mlp.proj.weight" layout: "data: S(1)" })text";
  const CompiledRun full = CompiledWith(stores, *backend, 4);
  const CompiledRun sliced = CompiledWith(stores + R"text(
    slice { path: "blocks.*.mlp.fc.weight" dimension: 0 count: 8 }
    slice { path: "blocks.*.mlp.proj.weight" dimension: 1 count: 8 })text",
                                          *backend, 4);
  const int64_t weight_bytes = 128 * 512 * 8;
  for (const char* name : {kTrain, kEvaluate, kGenerate}) {
    const Program& program = *sliced.FindProgram(name);
    EXPECT_EQ(MostGathered(program, "blocks.1.mlp.fc.weight"), 1) << name;
    EXPECT_EQ(MostGathered(program, "blocks.1.mlp.proj.weight"), 1) << name;
    const int64_t less = full.FindProgram(name)->arena_bytes() - program.arena_bytes();
    EXPECT_GE(less, std::string(name) == kTrain ? 0 : weight_bytes / 2) << name;
    std::cout << name << ": " << full.FindProgram(name)->arena_bytes() << " bytes, in slices "
              << program.arena_bytes() << "\n";
  }
  EXPECT_EQ(sliced.state_bytes, full.state_bytes);
}

// Completes a Plan for 96 layers and one for 12 layers on 8 x 8 ranks, and prints the time of both.
TEST(GptPlansTest, APlanOfManyLayersIsCompletedInTime) {
  const Plan open = ParsePlan(R"text(stages {
    mesh { name: "data" size: 8 } mesh { name: "model" }
    store { path: "tokens|targets" layout: "data: S(0)" }
    store { path: "blocks.*.mlp.fc.*" layout: "model: S(0)" }
    compute { path: "blocks.*.mlp.fc.matmul" signature: "model: B, S(0) -> S(2)" }
    store { path: "blocks.*.mlp.proj.weight" layout: "model: S(1)" }
    compute { path: "blocks.*.mlp.proj.matmul" signature: "model: S(2), S(1) -> P" }
  })text");
  for (int layers : {12, 96}) {
    const std::vector<Graph> graphs = RecordGpt(layers, 96, 128, 1536);
    const absl::Time start = absl::Now();
    const Plan plan = Completed(open, graphs, 64);
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    const int ops = plan.stages(0).parts(kTrainPart).compute_size();
    std::cout << layers << " layers, " << ops << " training ops: " << seconds << " s\n";
    EXPECT_LT(seconds, 5);  // generous: for a busy machine, and for sanitizers
  }
}

// Plans 96 layers on 64 ranks in 8 micro-batches, and prints the time.
TEST(GptPlansTest, AProgramOfManyLayersIsPlannedInTime) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  for (const char* file :
       {"docs/plans/data_tensor_parallel.textproto", "docs/plans/fully_sharded.textproto"}) {
    Plan open = ReadPlanFile(file);
    if (open.stages(0).mesh_size() == 2) open.mutable_stages(0)->mutable_mesh(0)->set_size(8);
    PlanPart& part = *open.mutable_stages(0)->add_parts();
    part.set_graph(kTrain);
    part.set_micro_batches(8);
    for (int layers : {12, 96}) {
      std::vector<Graph> graphs = RecordGpt(layers, 96, 128, 1536);
      const absl::Time start = absl::Now();
      const auto run = CompileRun(std::move(graphs), open, *backend, 64);
      ASSERT_TRUE(run.ok()) << run.status();
      const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
      std::cout << file << ", " << layers << " layers, "
                << run->FindProgram(kTrain)->instructions.size()
                << " training instructions: " << seconds << " s\n";
      EXPECT_LT(seconds, 60);  // generous: for a busy machine, and for sanitizers
    }
  }
}

// Plans one flat group of all blocks, whose members are gathered, reduced and updated together, and
// prints the time.
TEST(GptPlansTest, AGroupOfManyBlocksIsPlannedInTime) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const Plan open = ParsePlan(R"text(stages {
    mesh { name: "data" }
    store { path: "tokens|targets" layout: "data: S(0)" }
    group { path: "wte|wpe|blocks|ln_f" over: "data" }
    pass { prefetch_gathers {} }
    pass { limit_gathers {} }
    parts { graph: "train" micro_batches: 4 }
  })text");
  for (int layers : {12, 96}) {
    std::vector<Graph> graphs = RecordGpt(layers, 96, 128, 1536);
    const absl::Time start = absl::Now();
    const auto run = CompileRun(std::move(graphs), open, *backend, 64);
    ASSERT_TRUE(run.ok()) << run.status();
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    std::cout << layers << " layers: " << seconds << " s\n";
    EXPECT_LT(seconds, 60);  // generous: for a busy machine, and for sanitizers
  }
}

}  // namespace
}  // namespace tessera
