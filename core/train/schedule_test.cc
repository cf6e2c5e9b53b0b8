#include "core/train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace tessera {
namespace {

using ::testing::HasSubstr;

OptimizerConfig Config(const std::string& schedule, int64_t warmup) {
  OptimizerConfig config;
  config.set_schedule(schedule);
  config.set_lr(3e-3);
  config.set_min_lr(3e-4);
  config.set_warmup_steps(warmup);
  return config;
}

// tests/parity/make_states.py, learning_rate().
TEST(ScheduleTest, IsThatOfTheReferenceStates) {
  const OptimizerConfig config = Config("cosine", 3);
  for (int step = 1; step <= 10; ++step) {
    const double expected =
        step <= 3 ? 3e-3 * step / 3
                  : 3e-4 + (3e-3 - 3e-4) * 0.5 * (1 + std::cos(M_PI * (step - 3) / 7));
    EXPECT_DOUBLE_EQ(LearningRate(config, step, 10), expected) << step;
  }
}

TEST(ScheduleTest, LinearEndsAtTheLowestRate) {
  const OptimizerConfig config = Config("linear", 2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 1, 12), 1.5e-3);
  EXPECT_DOUBLE_EQ(LearningRate(config, 2, 12), 3e-3);
  EXPECT_DOUBLE_EQ(LearningRate(config, 7, 12), (3e-3 + 3e-4) / 2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 12, 12), 3e-4);
}

// Regression: a longer run had another rate at the same step.
TEST(ScheduleTest, TheDecayMayEndBeforeTheRun) {
  for (const char* schedule : {"linear", "cosine"}) {
    OptimizerConfig config = Config(schedule, 2);
    config.set_decay_steps(12);
    for (int step = 1; step <= 12; ++step) {
      EXPECT_EQ(LearningRate(config, step, 100), LearningRate(Config(schedule, 2), step, 12));
    }
    EXPECT_DOUBLE_EQ(LearningRate(config, 13, 100), 3e-4);
    EXPECT_DOUBLE_EQ(LearningRate(config, 100, 100), 3e-4);
    config.set_decay_steps(1);  // within the warm-up
    EXPECT_DOUBLE_EQ(LearningRate(config, 2, 100), 3e-3);
    EXPECT_DOUBLE_EQ(LearningRate(config, 3, 100), 3e-4);
  }
}

TEST(ScheduleTest, ConstantWithoutWarmup) {
  const OptimizerConfig config = Config("constant", 0);
  EXPECT_EQ(LearningRate(config, 1, 5), 3e-3);
  EXPECT_EQ(LearningRate(config, 5, 5), 3e-3);
}

TEST(ScheduleTest, WarmupMayBeLongerThanTheRun) {
  EXPECT_DOUBLE_EQ(LearningRate(Config("cosine", 10), 5, 5), 1.5e-3);
  EXPECT_DOUBLE_EQ(LearningRate(Config("linear", 5), 5, 5), 3e-3);
}

TEST(ScheduleTest, ChecksNameTheField) {
  EXPECT_TRUE(CheckSchedule(Config("linear", 0)).ok());
  EXPECT_THAT(std::string(CheckSchedule(Config("cosin", 0)).message()),
              HasSubstr("optimizer.schedule is 'cosin'"));
  EXPECT_THAT(std::string(CheckSchedule(Config("linear", -1)).message()),
              HasSubstr("optimizer.warmup_steps is -1"));
  OptimizerConfig negative = Config("linear", 0);
  negative.set_decay_steps(-1);
  EXPECT_THAT(std::string(CheckSchedule(negative).message()),
              HasSubstr("optimizer.decay_steps is -1"));
  OptimizerConfig config = Config("linear", 0);
  config.set_min_lr(1);
  EXPECT_THAT(std::string(CheckSchedule(config).message()), HasSubstr("optimizer.min_lr is 1"));
  config.set_lr(NAN);
  EXPECT_THAT(std::string(CheckSchedule(config).message()), HasSubstr("optimizer.lr is nan"));
}

}  // namespace
}  // namespace tessera
