#include "tools/train/setup/schedule_of_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunConfig Config(int64_t steps, int64_t decay_steps = 0) {
  RunConfig config;
  config.set_steps(steps);
  OptimizerConfig& optimizer = *config.mutable_optimizer();
  optimizer.set_schedule("cosine");
  optimizer.set_lr(1e-3);
  optimizer.set_min_lr(1e-4);
  optimizer.set_decay_steps(decay_steps);
  return config;
}

TEST(ScheduleOfRunTest, ALongerRunKeepsItsDecay) {
  EXPECT_EQ(DecaySteps(Config(100), nullptr), 100);
  const RunConfig saved = Config(100, 100);
  EXPECT_EQ(DecaySteps(Config(300, 100), &saved), 100);
  const RunConfig older = Config(100);  // without the setting
  EXPECT_EQ(DecaySteps(Config(300), &older), 100);
  EXPECT_EQ(DecaySteps(Config(300, 200), &saved), 200);
  RunConfig constant = Config(100);
  constant.mutable_optimizer()->set_schedule("constant");
  EXPECT_EQ(DecaySteps(constant, nullptr), 0);
  EXPECT_EQ(DecaySteps(Config(300), &constant), 300);
}

TEST(ScheduleOfRunTest, NotesSayWhatTheRateIs) {
  const RunConfig saved = Config(100, 100);
  EXPECT_THAT(ScheduleNotes(saved, nullptr, 0), IsEmpty());
  EXPECT_THAT(ScheduleNotes(saved, &saved, 50), IsEmpty());
  EXPECT_THAT(ScheduleNotes(Config(300, 100), &saved, 100),
              ElementsAre("the learning rate ends its decay at step 100 of 300, and stays at "
                          "1.00e-04; --set=optimizer.decay_steps=300 lets it decay until the end"));
  EXPECT_THAT(ScheduleNotes(Config(300, 300), &saved, 100),
              ElementsAre("the learning rate decays until step 300 now, not 100: it is 7.71e-04 at "
                          "step 101, after 1.00e-04"));
  EXPECT_THAT(ScheduleNotes(Config(300, 300), &saved, 0),
              ElementsAre(EndsWith("now, not 100: it is 1.00e-03 at step 1")));
  RunConfig slow = Config(100, 100);
  slow.mutable_optimizer()->set_warmup_steps(400);
  EXPECT_THAT(ScheduleNotes(slow, nullptr, 0),
              ElementsAre(HasSubstr("the warm-up of 400 steps is longer than the run of 100: the "
                                    "learning rate reaches 2.50e-04, not 1.00e-03")));
}

// Regression: the note said that a constant rate had decayed until step 0.
TEST(ScheduleOfRunTest, AConstantRateHasNotDecayedBefore) {
  for (const int64_t decay_steps : {0, 300}) {
    RunConfig constant = Config(100, decay_steps);
    constant.mutable_optimizer()->set_schedule("constant");
    EXPECT_THAT(ScheduleNotes(Config(300, 300), &constant, 100),
                ElementsAre("the learning rate decays until step 300 now, and did not decay "
                            "before: it is 7.71e-04 at step 101, after 1.00e-03"));
  }
}

}  // namespace
}  // namespace tessera
