#include "core/train/run_identity.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

RunConfig Config() {
  RunConfig config;
  config.mutable_model()->set_type_url("type.googleapis.com/tessera.GptConfig");
  config.mutable_model()->set_value("layers");
  config.set_seed(7);
  config.set_batch(4);
  config.set_steps(100);
  config.mutable_optimizer()->set_lr(0.5);
  return config;
}

TEST(RunIdentityTest, TheSameRunHasTheSameIdentity) {
  const std::string identity = RunIdentity(Config(), "text");
  EXPECT_EQ(identity.size(), 32);
  RunConfig config = Config();
  config.mutable_data()->set_file("/elsewhere/text");
  config.mutable_sample()->set_tokens(3);
  config.set_steps(200);
  config.mutable_optimizer()->set_decay_steps(200);
  config.set_memory_limit("1GiB");
  config.set_save_every(10);
  config.set_keep_checkpoints(1);
  config.set_eval_every(5);
  config.set_eval_batches(2);
  config.set_threads(8);
  EXPECT_EQ(RunIdentity(config, "text"), identity);
}

TEST(RunIdentityTest, AnotherRunHasAnother) {
  const std::string identity = RunIdentity(Config(), "text");
  EXPECT_NE(RunIdentity(Config(), "another text"), identity);
  RunConfig config = Config();
  config.set_seed(8);
  EXPECT_NE(RunIdentity(config, "text"), identity);
  config = Config();
  config.set_batch(5);
  EXPECT_NE(RunIdentity(config, "text"), identity);
  config = Config();
  config.mutable_model()->set_value("more layers");
  EXPECT_NE(RunIdentity(config, "text"), identity);
  config = Config();
  config.mutable_optimizer()->set_lr(0.25);
  EXPECT_NE(RunIdentity(config, "text"), identity);
}

}  // namespace
}  // namespace tessera
