// Checks flat groups whose members are also split over another axis of the mesh: fully sharded and
// tensor parallel training.
#include <string>
#include <utility>

#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "strategies/conformance/compare_training.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {
namespace {

struct Sizes {
  int batch = 8, sequence = 6, heads = 4, head_dim = 2, vocabulary = 24;
};
// Sizes that are not multiples of 2 or 3 ranks.
constexpr Sizes kOdd = {5, 7, 5, 3, 23};

TrainingRun Gpt(const Sizes& sizes, const std::string& optimizer = "sgd") {
  GptConfig model;
  model.set_layers(2);
  model.set_heads(sizes.heads);
  model.set_channels(sizes.heads * sizes.head_dim);
  model.set_vocabulary(sizes.vocabulary);
  model.set_context(8);
  model.set_dropout(0.1);
  RunConfig config;
  config.set_batch(sizes.batch);
  config.set_sequence(sizes.sequence);
  OptimizerConfig& settings = *config.mutable_optimizer();
  settings.set_kind(optimizer);
  settings.set_lr(optimizer == "sgd" ? 0.1 : 0.01);
  settings.set_clip_norm(0.5);
  if (optimizer == "adamw") {
    settings.set_beta1(0.9);
    settings.set_beta2(0.95);
    settings.set_eps(1e-8);
    settings.set_weight_decay(0.1);
  }
  auto created = CreateGpt(model);
  EXPECT_TRUE(created.ok()) << created.status();
  return RecordTraining(*std::move(created), config);
}

// Returns a Plan on `data` x `model` ranks.
Plan PlanOf(int data, int model, const std::string& choices) {
  Plan plan;
  const std::string text = "stages { mesh { name: 'data' size: " + std::to_string(data) +
                           " } mesh { name: 'model' size: " + std::to_string(model) +
                           " } store { path: 'tokens|targets' layout: 'data: S(0)' } " + choices +
                           " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan)) << text;
  return plan;
}

// Splits the MLP's hidden units over the axis `model`.
constexpr char kMlpSplit[] = R"(
  store { path: 'blocks.*.mlp.fc.*' layout: 'model: S(0)' }
  compute { path: 'blocks.*.mlp.fc.matmul' signature: 'model: B, S(0) -> S(2)' }
  store { path: 'blocks.*.mlp.proj.weight' layout: 'model: S(1)' }
  compute { path: 'blocks.*.mlp.proj.matmul' signature: 'model: S(2), S(1) -> P' }
  group { path: 'blocks.*' each: true over: 'data' })";

// Fully sharded tensor parallel training.
Plan ShardedTensorParallel(int data, int model) {
  Plan plan = ReadPlanFile("docs/plans/data_tensor_parallel.textproto");
  Stage& stage = *plan.mutable_stages(0);
  stage.mutable_mesh(0)->set_size(data);
  stage.mutable_mesh(1)->set_size(model);
  for (const char* path : {"blocks.*", "wte|wpe|ln_f"}) {
    GroupChoice& group = *stage.add_group();
    group.set_path(path);
    group.set_each(std::string(path) == "blocks.*");
    group.add_over("data");
  }
  return plan;
}

void ExpectSame(const TrainingRun& run, const Plan& plan, int ranks, double tolerance = 1e-10) {
  const auto alone = Train(run, Plan(), 1);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto result = Train(run, plan, ranks);
  ASSERT_TRUE(result.ok()) << result.status();
  const Difference difference = Compare(*alone, *result);
  EXPECT_LE(difference.relative, tolerance) << ranks << " ranks: " << difference.where;
}

TEST(FlatGroupsTest, AMemberThatAnotherAxisSplitsDrawsTheNumbersOfOneProcess) {
  const Plan plan = PlanOf(2, 2,
                           "store { path: 'blocks.*.mlp.fc.weight' layout: 'model: S(0)' }"
                           "group { path: 'blocks.*' each: true over: 'data' }");
  ExpectSame(Gpt({}), plan, 4);
}

TEST(FlatGroupsTest, MembersAreSplitByRowsAndByColumns) {
  ExpectSame(Gpt({}), PlanOf(2, 2, kMlpSplit), 4);
  ExpectSame(Gpt({}), PlanOf(2, 4, kMlpSplit), 8);
}

TEST(FlatGroupsTest, UnevenPartsHaveTheNormOfOneProcess) {
  ExpectSame(Gpt(kOdd), PlanOf(2, 2, kMlpSplit), 4);
  ExpectSame(Gpt(kOdd), PlanOf(2, 3, kMlpSplit), 6);
  ExpectSame(Gpt(kOdd), PlanOf(3, 2, kMlpSplit), 6);
  ExpectSame(Gpt(kOdd), PlanOf(1, 3, kMlpSplit), 3);
}

TEST(FlatGroupsTest, FullyShardedTensorParallelGpt) {
  ExpectSame(Gpt({}), ShardedTensorParallel(2, 2), 4);
  ExpectSame(Gpt(kOdd), ShardedTensorParallel(2, 2), 4);
  ExpectSame(Gpt(kOdd), ShardedTensorParallel(2, 3), 6);
}

TEST(FlatGroupsTest, UnevenPartsWithAdamw) {
  ExpectSame(Gpt(kOdd, "adamw"), PlanOf(2, 3, kMlpSplit), 6);
}

TEST(FlatGroupsTest, UnevenPartsOnTheCpuBackend) {
  TrainingRun run = Gpt(kOdd);
  run.backend = [] { return MakeCpuBackend(1); };
  ExpectSame(run, PlanOf(2, 3, kMlpSplit), 6, 1e-5);
  ExpectSame(run, ShardedTensorParallel(2, 2), 4, 1e-5);
}

TEST(FlatGroupsTest, UnevenPartsUseMemoryAsPlanned) {
  TrainingRun run = Gpt(kOdd);
  run.steps = 1;
  run.check_memory = true;
  const auto result = Train(run, ShardedTensorParallel(2, 3), 6);
  EXPECT_TRUE(result.ok()) << result.status();
}

}  // namespace
}  // namespace tessera
