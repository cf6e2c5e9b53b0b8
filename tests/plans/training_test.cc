// The Plans of docs/plans train on ranks as one process does.
#include <string>
#include <vector>

#include "core/kernels/cpu/backend.h"
#include "core/plan/testing_completion.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"
#include "tests/plans/rank_training.h"

namespace tessera {
namespace {

RunConfig SmallRun(int batch, int sequence) {
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(sequence);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_lr(0.1);
  return config;
}

struct GptSizes {
  int batch = 8, sequence = 6, heads = 4, head_dim = 2, vocabulary = 24;
  double clip_norm = 0;
  bool untied_head = false;
  std::string optimizer = "sgd";
};

TrainingRun SmallGpt(const GptSizes& sizes) {
  GptConfig model;
  model.set_layers(2);
  model.set_heads(sizes.heads);
  model.set_channels(sizes.heads * sizes.head_dim);
  model.set_vocabulary(sizes.vocabulary);
  model.set_context(8);
  model.set_dropout(0.1);
  model.set_untied_head(sizes.untied_head);
  RunConfig config = SmallRun(sizes.batch, sizes.sequence);
  config.mutable_optimizer()->set_kind(sizes.optimizer);
  config.mutable_optimizer()->set_clip_norm(sizes.clip_norm);
  if (sizes.optimizer == "adamw") {
    config.mutable_optimizer()->set_lr(0.01);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_eps(1e-8);
    config.mutable_optimizer()->set_weight_decay(0.1);
  }
  const auto created = CreateGpt(model);
  EXPECT_TRUE(created.ok()) << created.status();
  return RecordTraining(**created, config);
}

TrainingRun SmallMlp() {
  MlpConfig model;
  model.set_window(4);
  model.set_channels(6);
  model.add_hidden(16);
  model.add_hidden(12);
  model.set_vocabulary(24);
  const auto created = CreateMlp(model);
  EXPECT_TRUE(created.ok()) << created.status();
  return RecordTraining(**created, SmallRun(8, 4));
}

// Trains with the Plan on these numbers of ranks, and as one process.
void ExpectSame(const TrainingRun& run, const Plan& plan, const std::vector<int>& ranks,
                double tolerance = 1e-10) {
  const auto alone = Train(run, Plan(), 1);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_GT(alone->states.size(), 4u);
  EXPECT_TRUE(alone->outputs[0].contains("loss"));
  EXPECT_GT(alone->outputs[0].size(), 7u);  // gradients
  for (const int count : ranks) {
    const auto result = Train(run, plan, count);
    ASSERT_TRUE(result.ok()) << count << " ranks: " << result.status();
    const Difference difference = Compare(*alone, *result);
    EXPECT_LE(difference.relative, tolerance) << count << " ranks: " << difference.where;
  }
}

void ExpectSame(const TrainingRun& run, const std::string& plan, const std::vector<int>& ranks,
                double tolerance = 1e-10) {
  ExpectSame(run, ReadPlanFile(plan), ranks, tolerance);
}

constexpr char kDataParallel[] = "docs/plans/data_parallel.textproto";
constexpr char kFullySharded[] = "docs/plans/fully_sharded.textproto";
constexpr char kHybridSharded[] = "docs/plans/hybrid_sharded.textproto";
constexpr char kTensorParallel[] = "docs/plans/tensor_parallel.textproto";
constexpr char kDataTensorParallel[] = "docs/plans/data_tensor_parallel.textproto";

TEST(TrainingTest, DataParallelGpt) { ExpectSame(SmallGpt({}), kDataParallel, {1, 2, 4}); }

TEST(TrainingTest, DataParallelGptWithClipping) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kDataParallel, {2});
}

TEST(TrainingTest, DataParallelMlp) { ExpectSame(SmallMlp(), kDataParallel, {2, 4}); }

TEST(TrainingTest, FullyShardedGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kFullySharded, {1, 2, 3, 4});
}

TEST(TrainingTest, FullyShardedGptWithAdamw) {
  ExpectSame(SmallGpt({.clip_norm = 0.5, .optimizer = "adamw"}), kFullySharded, {2});
}

TEST(TrainingTest, HybridShardedGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kHybridSharded, {4, 8});
}

TEST(TrainingTest, TensorParallelGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kTensorParallel, {2, 4});
}

TEST(TrainingTest, DataAndTensorParallelGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kDataTensorParallel, {4, 8});
}

// Sizes that the ranks do not divide: parts are padded, and some are empty.
GptSizes OddSizes() {
  return {.batch = 5, .sequence = 7, .heads = 3, .head_dim = 5, .vocabulary = 23, .clip_norm = 0.5};
}

// The Plan with micro-batches, and blocks computed again for the backward pass.
Plan WithPart(const std::string& file, int micro_batches, bool recompute) {
  Plan plan = ReadPlanFile(file);
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(micro_batches);
  for (int i = 0; recompute && i < 2; ++i) part.add_recompute("blocks." + std::to_string(i));
  return plan;
}

TEST(TrainingTest, AllPlansWithMicroBatchesAndRecomputation) {
  const TrainingRun run = SmallGpt({.clip_norm = 0.5});
  for (const char* plan : {kDataParallel, kFullySharded, kTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithPart(plan, 2, /*recompute=*/false), {2});
    ExpectSame(run, WithPart(plan, 2, /*recompute=*/true), {4});
  }
  for (const char* plan : {kHybridSharded, kDataTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithPart(plan, 2, /*recompute=*/true), {4});
  }
}

TEST(TrainingTest, AllPlansOnTheCpuBackend) {
  for (GptSizes sizes : {GptSizes{.clip_norm = 0.5}, OddSizes()}) {
    TrainingRun run = SmallGpt(sizes);
    run.backend = [] { return MakeCpuBackend(1); };
    for (const char* plan :
         {kDataParallel, kFullySharded, kHybridSharded, kTensorParallel, kDataTensorParallel}) {
      SCOPED_TRACE(plan);
      ExpectSame(run, plan, {4}, 1e-5);
    }
  }
}

TEST(TrainingTest, AllPlansUseMemoryAsPlanned) {
  TrainingRun run = SmallGpt({.clip_norm = 0.5});
  run.steps = 1;
  run.check_memory = true;
  for (const char* plan :
       {kDataParallel, kFullySharded, kHybridSharded, kTensorParallel, kDataTensorParallel}) {
    const auto result = Train(run, ReadPlanFile(plan), 4);
    EXPECT_TRUE(result.ok()) << plan << ": " << result.status();
  }
}

TEST(TrainingTest, DataParallelGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kDataParallel, {2, 3, 4, 8});
}

TEST(TrainingTest, FullyShardedGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kFullySharded, {2, 3, 8});
}

TEST(TrainingTest, TensorParallelGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kTensorParallel, {2, 4});
}

TEST(TrainingTest, DataAndTensorParallelGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kDataTensorParallel, {4});
}

// Both sum gradients in one order, and updates are elementwise.
TEST(TrainingTest, FullyShardedGivesTheBitsOfDataParallel) {
  const TrainingRun run = SmallGpt({});
  for (const int ranks : {2, 4}) {
    const auto data = Train(run, ReadPlanFile(kDataParallel), ranks);
    const auto sharded = Train(run, ReadPlanFile(kFullySharded), ranks);
    ASSERT_TRUE(data.ok()) << data.status();
    ASSERT_TRUE(sharded.ok()) << sharded.status();
    for (const auto& [path, values] : data->states) {
      EXPECT_EQ(values, sharded->states.at(path)) << ranks << " ranks, " << path;
    }
  }
}

// The states after a run on 2 ranks by a Plan of docs/plans with these passes instead of its own,
// and this choice of when groups are gathered.
auto StatesWith(const std::string& file, absl::string_view passes, const char* gather = "") {
  Plan plan = ReadPlanFile(file);
  Stage& stage = *plan.mutable_stages(0);
  for (GroupChoice& group : *stage.mutable_group()) group.set_gather(gather);
  stage.clear_pass();
  Stage added;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(passes), &added));
  stage.MergeFrom(added);
  TrainingRun run = SmallGpt({.clip_norm = 0.5});
  run.steps = 3;
  const auto result = Train(run, plan, 2);
  EXPECT_TRUE(result.ok()) << passes << ": " << result.status();
  return result.ok() ? result->states : decltype(result->states)();
}

TEST(TrainingTest, BucketsChangeNoBits) {
  const auto states = StatesWith(kDataParallel, "");
  EXPECT_GT(states.size(), 4u);
  for (const char* pass :
       {"pass { name: 'bucket_gradients' cap: '1' }", "pass { name: 'bucket_gradients' }",
        "pass { name: 'bucket_gradients' cap: '2KiB' first: '512' }"}) {
    EXPECT_EQ(StatesWith(kDataParallel, pass), states) << pass;
  }
}

TEST(TrainingTest, WhenParametersAreGatheredChangesNoBits) {
  const auto states = StatesWith(kFullySharded, "");
  EXPECT_GT(states.size(), 4u);
  for (const char* passes : {"pass { name: 'prefetch_gathers' distance: 3 }",
                             "pass { name: 'limit_gathers' in_flight: 1 }",
                             "pass { name: 'prefetch_gathers' } pass { name: 'limit_gathers' }",
                             "pass { name: 'prefetch_gathers' distance: 5 } pass { name: "
                             "'limit_gathers' in_flight: 3 }"}) {
    EXPECT_EQ(StatesWith(kFullySharded, passes), states) << passes;
  }
  EXPECT_EQ(StatesWith(kFullySharded, "", "once"), states);
  EXPECT_EQ(StatesWith(kFullySharded, "pass { name: 'prefetch_gathers' }", "once"), states);
}

}  // namespace
}  // namespace tessera
