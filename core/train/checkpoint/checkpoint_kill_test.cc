// After a save is killed at any moment, the newest complete checkpoint opens and is correct.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "core/tensor/random.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/kill_at_moments.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Kills the process, as kill -9 would, before the `moment`th change on the disk.
absl::Status SaveAndDie(const std::string& run, const CheckpointContents& contents, int keep,
                        int moment) {
  SaveOptions options = OptionsForTest(keep);
  options.before_change = [&moment](absl::string_view) {
    if (moment-- == 0) kill(getpid(), SIGKILL);
  };
  return SaveCheckpoint(run, contents, ReadStateForTest(contents.step), options).status();
}

TEST(CheckpointKillTest, SurvivesAKillBeforeEveryChange) {
  const std::string run = NewFolder("kill");
  const std::string before = NewFolder("before");
  // With remains of a killed save, and old checkpoints to prune.
  for (int64_t step : {10, 20}) ASSERT_TRUE(SaveForTest(before, step, 0).ok());
  ASSERT_TRUE(MakeFolders(before + "/checkpoints/.tmp-step_00000025").ok());
  WriteFile(before + "/checkpoints/.tmp-step_00000025/optimizer.safetensors", "half of it");
  for (int keep : {1, 2}) {
    const int moments = DieAtEveryMoment(
        [&] { Copy(before, run); },
        [&](int moment) { SaveAndDie(run, ContentsForTest(30), keep, moment).IgnoreError(); },
        [&] { ExpectNewest(run, 20, 30); });
    EXPECT_GE(moments, 25);
    ExpectNewest(run, 30, 30);
    ExpectClean(run, keep);
  }
}

TEST(CheckpointKillTest, SurvivesAKillWhileTheOnlyOneIsReplaced) {
  const std::string run = NewFolder("kill");
  const std::string before = NewFolder("before");
  ASSERT_TRUE(SaveForTest(before, 10).ok());
  DieAtEveryMoment(
      [&] { Copy(before, run); },
      [&](int moment) { SaveAndDie(run, ContentsForTest(10), 1, moment).IgnoreError(); },
      [&] { ExpectNewest(run, 10, 10); });
  ExpectClean(run, 1);
}

TEST(CheckpointKillTest, SurvivesAKillOfTheFirstSave) {
  const std::string run = NewFolder("kill");
  DieAtEveryMoment(
      [&] { RemoveTree(run).IgnoreError(); },
      [&](int moment) { SaveAndDie(run, ContentsForTest(10), 1, moment).IgnoreError(); },
      [&] {
        auto opened = OpenCheckpoint(run);
        EXPECT_EQ(opened.ok() ? Difference(*opened->checkpoint) : "", "");
        EXPECT_FALSE(absl::IsDataLoss(opened.status())) << opened.status();
      });
  ExpectNewest(run, 10, 10);
}

// Saves one after another, killed from outside at random moments.
TEST(CheckpointKillTest, SurvivesKillsAtRandomMoments) {
  const std::string run = NewFolder("kill");
  ASSERT_TRUE(SaveForTest(run, 1, 2).ok());
  int64_t step = 1;
  int inside = 0;  // kills within a save
  for (uint64_t trial = 0; trial < 100; ++trial) {
    const pid_t child = Child([&] {
      for (int64_t next = step + 1;; ++next) {
        if (!SaveForTest(run, next, 2).ok()) _exit(1);
      }
    });
    ASSERT_GT(child, 0);
    usleep(500 + RandomWord(MakeStream(1, "kill"), 0, trial) % 12000);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a save failed by itself";

    auto names = ListFolder(run + "/checkpoints");
    ASSERT_TRUE(names.ok());
    inside += std::any_of(names->begin(), names->end(),
                          [](const std::string& name) { return name[0] == '.'; });
    ExpectNewest(run, step, step + 100000);
    ASSERT_FALSE(HasFailure());
    step = OpenCheckpoint(run)->checkpoint->step();
  }
  EXPECT_GE(inside, 10);
  ASSERT_TRUE(SaveForTest(run, step + 1, 2).ok());
  ExpectClean(run, 2);
}

}  // namespace
}  // namespace tessera
