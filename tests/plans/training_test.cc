// The Plans of docs/plans train on ranks as one process does.
#include <string>
#include <vector>

#include "core/plan/testing_completion.h"
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

TrainingRun SmallGpt(double clip_norm) {
  GptConfig model;
  model.set_layers(2);
  model.set_heads(4);
  model.set_channels(8);
  model.set_vocabulary(24);
  model.set_context(8);
  model.set_dropout(0.1);
  RunConfig config = SmallRun(8, 6);
  config.mutable_optimizer()->set_clip_norm(clip_norm);
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
void ExpectSame(const TrainingRun& run, const std::string& plan, const std::vector<int>& ranks) {
  const auto alone = Train(run, Plan(), 1);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_GT(alone->states.size(), 4u);
  EXPECT_GT(alone->outputs.size(), alone->states.size() / 2);
  for (const int count : ranks) {
    const auto result = Train(run, ReadPlanFile(plan), count);
    ASSERT_TRUE(result.ok()) << count << " ranks: " << result.status();
    const Difference difference = Compare(*alone, *result);
    EXPECT_LE(difference.relative, 1e-10) << count << " ranks: " << difference.where;
  }
}

TEST(TrainingTest, DataParallelGpt) {
  ExpectSame(SmallGpt(/*clip_norm=*/0), "docs/plans/data_parallel.textproto", {1, 2, 4});
}

TEST(TrainingTest, DataParallelGptWithClipping) {
  ExpectSame(SmallGpt(/*clip_norm=*/0.5), "docs/plans/data_parallel.textproto", {2});
}

TEST(TrainingTest, DataParallelMlp) {
  ExpectSame(SmallMlp(), "docs/plans/data_parallel.textproto", {2, 4});
}

}  // namespace
}  // namespace tessera
