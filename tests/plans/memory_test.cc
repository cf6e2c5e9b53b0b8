// Checks the planned memory of ranks, and that a step uses it as planned.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

constexpr int kBlocks = 6;  // the memory of one is a small part of all
constexpr int kRanks = 8;

// The training Program of a rank.
Program Compiled(const Plan& plan, int ranks) {
  GptConfig model;
  model.set_layers(kBlocks);
  model.set_heads(2);
  model.set_channels(8);
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
  const auto run = CompileRun(*std::move(graphs), plan, *backend, ranks);
  EXPECT_TRUE(run.ok()) << run.status();
  return *run->FindProgram(kTrain);
}

// Returns the bytes of states of a category, without the scalars that every rank has.
int64_t StateBytes(const Program& program, Category category) {
  int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.state && buffer.category == category && buffer.bytes > 8) bytes += buffer.bytes;
  }
  return bytes;
}

enum class Side { kInput, kOutput };

// Returns the buffers that the collectives of one operation read or write.
std::vector<Buffer> BuffersOf(const Program& program, CollectiveOperation operation, Side side) {
  std::vector<Buffer> buffers;
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction) ||
        program.collectives[instruction.collective].operation != operation) {
      continue;
    }
    const ProgramValueId value =
        side == Side::kInput ? instruction.inputs[0] : instruction.outputs[0];
    buffers.push_back(program.buffers[program.value(value).buffer]);
  }
  return buffers;
}

// Returns the most bytes of these buffers that are live at one instruction.
int64_t LargestLive(const Program& program, const std::vector<Buffer>& buffers) {
  std::vector<int64_t> live(program.instructions.size() + 2, 0);
  for (const Buffer& buffer : buffers) {
    for (int32_t time = buffer.first; time <= buffer.last; ++time) live[time + 1] += buffer.bytes;
  }
  return *std::max_element(live.begin(), live.end());
}

std::vector<Buffer> Gathered(const Program& program) {
  return BuffersOf(program, CollectiveOperation::kAllGather, Side::kOutput);
}
std::vector<Buffer> FullGradients(const Program& program) {
  return BuffersOf(program, CollectiveOperation::kReduceScatter, Side::kInput);
}
std::vector<Buffer> ReducedGradients(const Program& program) {
  return BuffersOf(program, CollectiveOperation::kReduceScatter, Side::kOutput);
}

int64_t TotalBytes(const std::vector<Buffer>& buffers) {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.bytes;
  return bytes;
}

// Returns the documented Plan with at most this many groups in flight; 0: any number.
Plan FullySharded(int in_flight) {
  Plan plan = ReadPlanFile(kFullySharded);
  Stage& stage = *plan.mutable_stages(0);
  stage.clear_pass();
  stage.MergeFrom(ParsePlan("stages { pass { prefetch_gathers { distance: 5 } } }").stages(0));
  if (in_flight == 0) return plan;
  stage.MergeFrom(ParsePlan("stages { pass { limit_gathers { in_flight: " +
                            std::to_string(in_flight) + " } } }")
                      .stages(0));
  return plan;
}

TEST(MemoryTest, FullyShardedHoldsAnEighthOfAllState) {
  const Program alone = Compiled(Plan(), 1);
  const Program program = Compiled(ReadPlanFile(kFullySharded), kRanks);
  constexpr int64_t kGroups = kBlocks + 1;
  // A rank's shard of a group is rounded up to an element.
  constexpr int64_t kPadding = kGroups * 4;
  const int64_t parameters = StateBytes(alone, Category::kParameters);
  const int64_t part = StateBytes(program, Category::kParameters);
  EXPECT_GE(part * kRanks, parameters);
  EXPECT_LT(part, parameters / kRanks + kPadding);
  EXPECT_EQ(StateBytes(alone, Category::kOptimizerState), 2 * parameters);
  EXPECT_EQ(StateBytes(program, Category::kOptimizerState), 2 * part);
  EXPECT_EQ(TotalBytes(ReducedGradients(program)), part);
}

TEST(MemoryTest, FullyShardedHoldsAFewGroupsAtATime) {
  // Groups are gathered and reduced with padding: the padded shards of all ranks.
  const Program program = Compiled(ReadPlanFile(kFullySharded), kRanks);
  const std::vector<Buffer> full = FullGradients(program);
  ASSERT_EQ(full.size(), size_t{kBlocks + 1});
  const int64_t block = full[0].bytes;
  const int64_t rest = full.back().bytes;  // of the embeddings and the last norm
  EXPECT_EQ(TotalBytes(full), kBlocks * block + rest);
  EXPECT_LT(rest, block);
  // The tied embedding is used from the beginning to the end of the forward and the backward pass.
  for (const int in_flight : {1, 2, 3}) {
    const Program bounded = Compiled(FullySharded(in_flight), kRanks);
    EXPECT_LE(LargestLive(bounded, Gathered(bounded)), in_flight * block + 2 * rest) << in_flight;
    EXPECT_LE(LargestLive(bounded, FullGradients(bounded)), in_flight * block + rest) << in_flight;
  }
  const Program unbounded = Compiled(FullySharded(0), kRanks);
  EXPECT_GT(LargestLive(unbounded, Gathered(unbounded)), 4 * block);
  // Nothing waits for the reductions before the update.
  EXPECT_EQ(LargestLive(unbounded, FullGradients(unbounded)), kBlocks * block + rest);
  EXPECT_LT(program.arena_bytes(), unbounded.arena_bytes());
}

void ExpectUsedAsPlanned(const GptSizes& sizes, const char* plan, int ranks) {
  TrainingRun run = SmallGpt(sizes);
  run.steps = 1;
  run.check_memory = true;
  const auto result = Train(run, ReadPlanFile(plan), ranks);
  EXPECT_TRUE(result.ok()) << plan << " on " << ranks << ": " << result.status();
}

// Checks every rank and memory space, with fences and in arenas of exactly the planned size.
TEST(MemoryTest, AllPlansUseMemoryAsPlanned) {
  for (const char* plan : kAllPlans) {
    ExpectUsedAsPlanned({.clip_norm = 0.5}, plan, 4);
    ExpectUsedAsPlanned({.clip_norm = 0.5, .optimizer = "adamw"}, plan, 8);
    // Shards are padded, also in flat groups, and some are empty.
    ExpectUsedAsPlanned(OddSizes(), plan, 4);
    ExpectUsedAsPlanned(OddSizes(), plan, 8);
  }
}

}  // namespace
}  // namespace tessera
