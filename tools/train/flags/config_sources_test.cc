#include "tools/train/flags/config_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Any message type can serve as a model's configuration.
ModelDefinition Definition() {
  ModelDefinition model;
  model.name = "test";
  model.default_config = &SampleConfig::default_instance();
  model.presets = {
      {"small", "steps: 7 model { [type.googleapis.com/tessera.SampleConfig] { tokens: 5 } }"},
      {"broken", "steps: x"}};
  return model;
}

TEST(RunConfigTest, EachLayerLiesOverTheOneBefore) {
  const ModelDefinition model = Definition();
  auto config = PresetConfig(model, "");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->config().steps(), 7);
  EXPECT_EQ(config->Get("model.tokens"), "5");
  EXPECT_EQ(config->config().device(), "cpu");

  const std::string path = ::testing::TempDir() + "/layer.textproto";
  std::ofstream(path) << "steps: 8 batch: 2";
  ASSERT_TRUE(MergeFile(path, &*config).ok());
  ASSERT_TRUE(
      ApplySettings({{"--set", "batch", "3"}, {"--lr", "optimizer.lr", "0.25"}}, &*config).ok());
  EXPECT_EQ(config->config().steps(), 8);
  EXPECT_EQ(config->config().batch(), 3);
  EXPECT_EQ(config->config().optimizer().lr(), 0.25);

  const auto saved = SavedConfig(model, config->ToText(), "saved");
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(ChangesBetween(*saved, *config).empty());
  ASSERT_TRUE(config->Set("batch", "4").ok());
  const std::vector<ConfigChange> changes = ChangesBetween(*saved, *config);
  ASSERT_EQ(changes.size(), 1);
  EXPECT_EQ(changes[0].path, "batch");
  EXPECT_EQ(changes[0].before, "3");
  EXPECT_EQ(changes[0].after, "4");
}

TEST(RunConfigTest, AnOpenBatchKeepsItsDefault) {
  const ModelDefinition model = Definition();
  auto config = PresetConfig(model, "small");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto set = [&](const std::string& value) {
    return ApplySettings({{"--batch", "batch", value}}, &*config);
  };
  ASSERT_TRUE(set("12").ok());
  ASSERT_TRUE(set("search").ok());
  EXPECT_TRUE(config->config().search_batch());
  EXPECT_EQ(config->config().batch(), 12);
  ASSERT_TRUE(set("6").ok());
  EXPECT_FALSE(config->config().search_batch());
  EXPECT_EQ(config->config().batch(), 6);
  EXPECT_FALSE(set("searched").ok());
}

TEST(RunConfigTest, ErrorsSayWhatWasGiven) {
  const ModelDefinition model = Definition();
  EXPECT_THAT(std::string(PresetConfig(model, "smal").status().message()),
              HasSubstr("presets are small, broken; did you mean 'small'?"));
  EXPECT_THAT(std::string(PresetConfig(model, "broken").status().message()),
              HasSubstr("preset broken:1: "));
  auto config = PresetConfig(model, "small");
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(std::string(MergeFile("/nowhere/x.textproto", &*config).message()),
              HasSubstr("/nowhere/x.textproto"));
  EXPECT_THAT(std::string(ApplySettings({{"--lr", "optimizer.lr", "x"}}, &*config).message()),
              HasSubstr("--lr: optimizer.lr: 'x' is not a number"));
}

TEST(RunConfigTest, EveryFieldIsChecked) {
  ASSERT_TRUE(CheckRunConfig(DefaultRunConfig()).ok()) << CheckRunConfig(DefaultRunConfig());
  const struct {
    const char* field;
    std::function<void(RunConfig&)> spoil;
  } cases[] = {
      {"steps is 0", [](RunConfig& c) { c.set_steps(0); }},
      {"steps is 1000000000000001: it must be at most 1000000000000000",
       [](RunConfig& c) { c.set_steps(1'000'000'000'000'001); }},
      {"batch is -1", [](RunConfig& c) { c.set_batch(-1); }},
      {"sequence is 0", [](RunConfig& c) { c.set_sequence(0); }},
      {"below 2^31",
       [](RunConfig& c) {
         c.set_batch(1 << 16);
         c.set_sequence(1 << 16);
       }},
      {"below 2^31", [](RunConfig& c) { c.set_batch(int64_t{1} << 62); }},
      {"micro_batches is 3: it must divide batch", [](RunConfig& c) { c.set_micro_batches(3); }},
      {"micro_batches is 0", [](RunConfig& c) { c.set_micro_batches(0); }},
      {"device is 'gpu': it must be one of cpu, reference",
       [](RunConfig& c) { c.set_device("gpu"); }},
      {"dtype is 'f64'", [](RunConfig& c) { c.set_dtype("f64"); }},
      {"recompute is 'blocks.0|': it must be none, block, or a path: path 'blocks.0|' has an empty",
       [](RunConfig& c) { c.set_recompute("blocks.0|"); }},
      {"memory_limit: '2 gigs'", [](RunConfig& c) { c.set_memory_limit("2 gigs"); }},
      {"memory_limit is 0", [](RunConfig& c) { c.set_memory_limit("0"); }},
      {"save_every is -1", [](RunConfig& c) { c.set_save_every(-1); }},
      {"keep_checkpoints is 0", [](RunConfig& c) { c.set_keep_checkpoints(0); }},
      {"eval_every is -1", [](RunConfig& c) { c.set_eval_every(-1); }},
      {"eval_batches is -1", [](RunConfig& c) { c.set_eval_batches(-1); }},
      {"threads is -1", [](RunConfig& c) { c.set_threads(-1); }},
      {"sample.tokens is -1", [](RunConfig& c) { c.mutable_sample()->set_tokens(-1); }},
      {"sample.top_k is -1", [](RunConfig& c) { c.mutable_sample()->set_top_k(-1); }},
      {"sample.temperature is -1", [](RunConfig& c) { c.mutable_sample()->set_temperature(-1); }},
      {"optimizer.kind is 'adam'", [](RunConfig& c) { c.mutable_optimizer()->set_kind("adam"); }},
      {"optimizer.beta1 is 1", [](RunConfig& c) { c.mutable_optimizer()->set_beta1(1); }},
      {"optimizer.lr is -1", [](RunConfig& c) { c.mutable_optimizer()->set_lr(-1); }},
  };
  for (const auto& each : cases) {
    RunConfig config = DefaultRunConfig();
    each.spoil(config);
    EXPECT_THAT(std::string(CheckRunConfig(config).message()), HasSubstr(each.field));
  }
  RunConfig searched = DefaultRunConfig();
  searched.set_micro_batches(3);
  searched.set_search_batch(true);
  EXPECT_TRUE(CheckRunConfig(searched).ok());
}

// Regression: the limit was divided by the batch and rounded down, so some batches below it were
// refused.
TEST(RunConfigTest, AStepMayHaveAnyNumberOfTokensBelowTheLimit) {
  const auto check = [](int64_t batch, int64_t sequence) {
    RunConfig config = DefaultRunConfig();
    config.set_batch(batch);
    config.set_sequence(sequence);
    return CheckRunConfig(config);
  };
  EXPECT_TRUE(check(3, 715'827'882).ok()) << check(3, 715'827'882);  // 2^31 - 2 tokens
  EXPECT_TRUE(check(1, 2'147'483'647).ok()) << check(1, 2'147'483'647);
  EXPECT_TRUE(check(2'147'483'647, 1).ok()) << check(2'147'483'647, 1);
  EXPECT_FALSE(check(2, 1 << 30).ok());
  EXPECT_FALSE(check(3, 715'827'883).ok());
  EXPECT_FALSE(check(int64_t{1} << 31, 1).ok());
}

TEST(RunConfigTest, MemoryLimitIsInBytes) {
  RunConfig config = DefaultRunConfig();
  EXPECT_EQ(MemoryLimit(config), 0);
  config.set_memory_limit("2GiB");
  EXPECT_EQ(MemoryLimit(config), int64_t{2} << 30);
}

}  // namespace
}  // namespace tessera
