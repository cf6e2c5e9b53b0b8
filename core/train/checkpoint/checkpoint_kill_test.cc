// After a save is killed at any moment, the newest complete checkpoint opens and is correct.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "core/tensor/random.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/test_state.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Forks; the child process runs `body` and ends. The caller must wait for it.
pid_t Child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

// Copying is faster than saving again for each moment if the disk is slow.
void Copy(const std::string& from, const std::string& to) {
  ASSERT_TRUE(RemoveTree(to).ok());
  std::error_code error;
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  ASSERT_FALSE(error) << error.message();
}

// Kills the process, as kill -9 would, before the `moment`th change on the disk.
absl::Status SaveAndDie(const std::string& run, const CheckpointContents& contents, int keep,
                        int moment) {
  SaveOptions options = OptionsForTest(keep);
  options.before_change = [&moment](absl::string_view) {
    if (moment-- == 0) kill(getpid(), SIGKILL);
  };
  return SaveCheckpoint(run, contents, ReadStateForTest(contents.step), options).status();
}

// Expects that the newest complete checkpoint is of one of these steps, and that every folder with
// a checkpoint's name is complete.
void ExpectNewest(const std::string& run, int64_t at_least, int64_t at_most) {
  auto opened = OpenCheckpoint(run);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(Difference(*opened->checkpoint), "");
  EXPECT_GE(opened->checkpoint->step(), at_least);
  EXPECT_LE(opened->checkpoint->step(), at_most);
  auto found = ListCheckpoints(CheckpointsFolder(run));
  ASSERT_TRUE(found.ok()) << found.status();
  for (const FoundCheckpoint& named : *found) {
    auto checkpoint = Checkpoint::Open(named.folder);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(Difference(**checkpoint), "");
  }
}

// Expects nothing but checkpoints, as after a save that was not killed.
void ExpectClean(const std::string& run, size_t count) {
  EXPECT_EQ(ListFolder(CheckpointsFolder(run))->size(), count);
  EXPECT_EQ(ListCheckpoints(CheckpointsFolder(run))->size(), count);
}

// Runs `attempt(moment)` in child processes that die before change 0, 1, 2, ... until one
// completes.
int DieAtEveryMoment(const std::function<void()>& prepare, const std::function<void(int)>& attempt,
                     const std::function<void()>& check) {
  for (int moment = 0;; ++moment) {
    prepare();
    const pid_t child = Child([&] { attempt(moment); });
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    check();
    if (WIFEXITED(status) || ::testing::Test::HasFailure()) return moment;
  }
}

TEST(CheckpointKillTest, SurvivesAKillBeforeEveryChange) {
  const std::string run = NewFolder("kill");
  const std::string before = NewFolder("before");
  // With remains of a killed save, and old checkpoints to prune.
  for (int64_t step : {10, 20}) ASSERT_TRUE(SaveForTest(before, step, 0).ok());
  ASSERT_TRUE(MakeFolders(before + "/checkpoints/.tmp-step_00000025/a").ok());
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
