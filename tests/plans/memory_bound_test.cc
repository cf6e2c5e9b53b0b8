// Checks that the planned memory of a rank is close to its lower bound, the most bytes that are
// live at once.
#include <string>
#include <vector>

#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "core/program/memory/memory_plan.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"

namespace tessera {
namespace {

constexpr char kDataTensorParallel[] = "docs/plans/data_tensor_parallel.textproto";

struct Job {
  int layers, heads, channels, context;
  int batch, sequence, micro_batches, ranks;
};

// Returns the ratio of planned bytes to the most live bytes.
double RatioOf(const Job& job, Plan plan) {
  GptConfig model;
  model.set_layers(job.layers);
  model.set_heads(job.heads);
  model.set_channels(job.channels);
  model.set_vocabulary(50257);
  model.set_context(job.context);
  RunConfig config;
  config.set_batch(job.batch);
  config.set_sequence(job.sequence);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_optimizer()->set_lr(1e-4);
  config.mutable_optimizer()->set_eps(1e-8);
  config.mutable_optimizer()->set_clip_norm(1);
  const auto created = CreateGpt(model);
  EXPECT_TRUE(created.ok()) << created.status();
  const auto train = RecordTrain(**created, config);
  EXPECT_TRUE(train.ok()) << train.status();
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph(kTrain);
  part.set_micro_batches(job.micro_batches);
  const auto run = CompileRun({*train}, plan, *MakeCpuBackend(1), job.ranks);
  EXPECT_TRUE(run.ok()) << run.status();
  const MemoryReport report = ReportMemory(run->programs[0]);
  return static_cast<double>(report.arena_bytes) / static_cast<double>(report.live_bytes);
}

TEST(MemoryBoundTest, FivePlansOfGpt2) {
  for (const char* plan : {"data_parallel", "fully_sharded", "hybrid_sharded", "tensor_parallel",
                           "data_tensor_parallel"}) {
    const Job job = {12, 12, 768, 1024, 4, 256, 1, 4};
    const std::string path = std::string("docs/plans/") + plan + ".textproto";
    EXPECT_LE(RatioOf(job, ReadPlanFile(path)), 1.05) << plan;
  }
}

// Regression: gradients accumulated over micro-batches and their last sums had memory in different
// arenas.
TEST(MemoryBoundTest, SumsOverMicroBatchesTakeMemoryOnce) {
  const Job job = {12, 12, 768, 1024, 16, 256, 4, 4};
  EXPECT_LE(RatioOf(job, ReadPlanFile(kDataTensorParallel)), 1.05);
}

TEST(MemoryBoundTest, Gpt3On64Ranks) {
  Plan plan = ReadPlanFile(kDataTensorParallel);
  plan.mutable_stages(0)->mutable_mesh(0)->set_size(8);
  EXPECT_LE(RatioOf({96, 96, 12288, 2048, 64, 2048, 8, 64}, plan), 1.05);
}

}  // namespace
}  // namespace tessera
