#include "tools/train/folder/disk_space.h"

#include <algorithm>
#include <cstdint>

#include "core/posix/free_disk_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

RunConfig Config(int64_t steps, int64_t save_every, int64_t keep) {
  RunConfig config;
  config.set_steps(steps);
  config.set_save_every(save_every);
  config.set_keep_checkpoints(keep);
  return config;
}

// Counts the saves one by one.
int64_t CountSaves(int64_t steps, int64_t every, int64_t done) {
  int64_t saves = 0;
  for (int64_t step = done + 1; step <= steps; ++step) {
    if (step == steps || (every > 0 && step % every == 0)) ++saves;
  }
  return saves;
}

TEST(DiskSpaceTest, CountsTheSavesThatAreLeft) {
  for (const int64_t every : {0, 1, 3, 10, 12, 100}) {
    for (int64_t done = 0; done <= 12; ++done) {
      EXPECT_EQ(SavesLeft(Config(12, every, 3), done), CountSaves(12, every, done))
          << every << " " << done;
    }
  }
}

// Saves and removes one by one.
int64_t MostAdded(int64_t saves, int64_t keep, int64_t existing) {
  int64_t now = existing, most = existing;
  for (int64_t i = 0; i < saves; ++i) {
    most = std::max(most, ++now);
    if (keep > 0) now = std::min(now, keep);
  }
  return most - existing;
}

TEST(DiskSpaceTest, CountsTheCheckpointsThatAreThereAtATime) {
  for (const int64_t saves : {0, 1, 2, 5, 50}) {
    for (const int64_t keep : {0, 1, 3, 100}) {
      for (const int64_t existing : {0, 1, 2, 3}) {
        EXPECT_EQ(AddedCheckpoints(saves, keep, existing), MostAdded(saves, keep, existing))
            << saves << " " << keep << " " << existing;
      }
      // With more than are kept, the first save removes them.
      EXPECT_EQ(AddedCheckpoints(saves, keep, 1000),
                keep <= 0 ? saves : std::min<int64_t>(saves, 1));
    }
  }
}

TEST(DiskSpaceTest, RefusesARunThatCannotSaveOnce) {
  const std::string folder = ::testing::TempDir();
  const int64_t free = FreeDiskSpace(folder);
  ASSERT_GT(free, 0);
  const RunConfig config = Config(100, 10, 3);
  EXPECT_EQ(*NoteOnDiskSpace(folder, config, 0, 1000), "");
  const auto noted = NoteOnDiskSpace(folder, config, 0, free / 3);
  ASSERT_TRUE(noted.ok()) << noted.status();
  EXPECT_THAT(*noted, HasSubstr(" and the run adds 4 (one while it is written): free some space"));
  EXPECT_EQ(*NoteOnDiskSpace(folder, config, 95, free / 3), "") << "one is left";
  EXPECT_THAT(*NoteOnDiskSpace(folder, Config(100, 10, 0), 0, free / 9),
              HasSubstr("the run adds 10 (as all are kept)"));
  const auto refused = NoteOnDiskSpace(folder, config, 95, int64_t{1} << 60);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(" free, and a checkpoint takes 1048576 TiB: free some space there, or"));
  EXPECT_EQ(*NoteOnDiskSpace("/proc", config, 0, int64_t{1} << 60), "") << "not known";
}

}  // namespace
}  // namespace tessera
