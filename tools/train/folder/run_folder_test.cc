#include "tools/train/folder/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/posix/testing/obstacles.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Fresh(const std::string& name) {
  std::string path = ::testing::TempDir() + "/" + name;
  fs::remove_all(path);
  return path;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(RunFolderTest, ANewRunIsBelowTheUsersFolder) {
  setenv("BUILD_WORKING_DIRECTORY", "/home/user", 1);
  setenv("TZ", "UTC", 1);
  EXPECT_EQ(NewRunPath("gpt", 0), "/home/user/runs/gpt-19700101-000000");
  unsetenv("BUILD_WORKING_DIRECTORY");
}

TEST(RunFolderTest, ARunsPathFromWithin) {
  EXPECT_EQ(RunOf("/x/run").run, "/x/run");
  EXPECT_FALSE(RunOf("/x/run").is_checkpoint);
  EXPECT_EQ(RunOf("/x/run/checkpoints").run, "/x/run");
  EXPECT_FALSE(RunOf("/x/run/checkpoints").is_checkpoint);
  EXPECT_EQ(RunOf("/x/run/checkpoints/step_00000001").run, "/x/run");
  EXPECT_TRUE(RunOf("/x/run/checkpoints/step_00000001").is_checkpoint);
}

TEST(RunFolderTest, ARunIsNotWrittenOver) {
  const std::string path = Fresh("not_over");
  {
    const auto folder = RunFolder::Open(path, false);
    ASSERT_TRUE(folder.ok()) << folder.status();
    ASSERT_TRUE((*folder)->WriteText("config.textproto", "steps: 1\n").ok());
    ASSERT_TRUE((*folder)->WriteText("config.textproto", "steps: 2\n").ok());
    ASSERT_TRUE((*folder)->WriteText("dump/graph.txt", "text").ok());
    ASSERT_TRUE((*folder)->WriteText("checkpoints/step_00000001/manifest.json", "{}").ok());
    EXPECT_EQ(Contents(path + "/config.textproto"), "steps: 2\n");
    EXPECT_EQ(Contents(path + "/dump/graph.txt"), "text");
    const auto second = RunFolder::Open(path, true);
    EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  }
  const auto again = RunFolder::Open(path, false);
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("--resume=" + path));
  EXPECT_TRUE(RunFolder::Open(path, true).ok());
}

TEST(RunFolderTest, ARunWithoutACheckpointIsWrittenOver) {
  const std::string path = Fresh("no_checkpoint");
  {
    const auto folder = RunFolder::Open(path, false);
    ASSERT_TRUE(folder.ok()) << folder.status();
    ASSERT_TRUE((*folder)->WriteText("config.textproto", kConfigTitle).ok());
    ASSERT_TRUE((*folder)->WriteText("metrics.jsonl", "{}\n").ok());
    ASSERT_TRUE((*folder)->WriteText("checkpoints/.tmp-step_00000001/manifest.json", "{}").ok());
  }
  EXPECT_TRUE(HoldsRunWithoutCheckpoint(path));
  EXPECT_TRUE(RunFolder::Open(path, false).ok());
}

TEST(RunFolderTest, AConfigurationThatNoRunHasWrittenIsKept) {
  const std::string path = Fresh("foreign_config");
  fs::create_directories(path);
  std::ofstream(path + "/config.textproto") << "steps: 1\n";
  EXPECT_FALSE(HoldsRunWithoutCheckpoint(path));
  const auto folder = RunFolder::Open(path, false);
  EXPECT_TRUE(absl::IsAlreadyExists(folder.status())) << folder.status();
}

TEST(RunFolderTest, AFolderThatWasMadeForNothingGoesAgain) {
  const std::string path = Fresh("for_nothing");
  ASSERT_TRUE(RunFolder::Open(path, false).ok());
  EXPECT_FALSE(fs::exists(path));
  fs::create_directories(path);
  ASSERT_TRUE(RunFolder::Open(path, false).ok());
  EXPECT_TRUE(fs::exists(path)) << "it was there before";
}

// A text replaces any entry of its name, and the name that it has while it is written, unless that
// is a folder.
TEST(RunFolderTest, ATextReplacesWhatIsThereAndFollowsNoLink) {
  const std::string path = Fresh("prepared"), victim = Fresh("victim");
  MakeVictim(victim);
  const std::string before = Snapshot(victim);
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket) continue;  // its path may be too long
    for (const std::string name : {"job", "job.tmp", "dump", "dump/plan", "dump/plan.tmp"}) {
      SCOPED_TRACE(name + " is " + NameOf(obstacle));
      fs::remove_all(path);
      Put(obstacle, path + "/" + name, victim);
      auto folder = RunFolder::Open(path, false);
      ASSERT_TRUE(folder.ok()) << folder.status();
      const std::string text = name[0] == 'j' ? "job" : "dump/plan";
      const absl::Status status = (*folder)->WriteText(text, "new");
      EXPECT_EQ(Snapshot(victim), before);
      const bool is_folder = obstacle == Obstacle::kFolder;
      EXPECT_EQ(status.ok(), name == "dump" ? is_folder : !is_folder) << status;
      if (status.ok()) {
        EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path + "/" + text)));
        EXPECT_EQ(Contents(path + "/" + text), "new");
      } else {
        EXPECT_THAT(std::string(status.message()), HasSubstr(path + "/" + name));
      }
    }
  }
}

TEST(RunFolderTest, TheFolderOfCheckpointsMustBeAFolder) {
  const std::string path = Fresh("linked"), victim = Fresh("victim");
  MakeVictim(victim);
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket || obstacle == Obstacle::kFolder) continue;
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, path + "/checkpoints", victim);
    for (const bool resuming : {false, true}) {
      const auto folder = RunFolder::Open(path, resuming);
      ASSERT_FALSE(folder.ok());
      EXPECT_THAT(std::string(folder.status().message()),
                  AllOf(HasSubstr(path + "/checkpoints is a"), HasSubstr("not a folder")));
    }
  }
}

// Regression: it was read to its end, and a FIFO was waited for.
TEST(RunFolderTest, AConfigurationThatIsNoFileIsForeign) {
  const std::string path = Fresh("no_file"), victim = Fresh("victim");
  MakeVictim(victim);
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket) continue;  // its path may be too long
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, path + "/config.textproto", victim);
    EXPECT_FALSE(HoldsRunWithoutCheckpoint(path));
    const auto folder = RunFolder::Open(path, false);
    EXPECT_TRUE(absl::IsAlreadyExists(folder.status())) << folder.status();
  }
}

TEST(RunFolderTest, AFolderThatEveryoneCanWriteIsNoted) {
  const std::string path = Fresh("open");
  fs::create_directories(path + "/checkpoints");
  fs::permissions(path, fs::perms(0755));
  fs::permissions(path + "/checkpoints", fs::perms(0755));
  EXPECT_THAT((*RunFolder::Open(path, true))->Notes(), ElementsAre());
  fs::permissions(path + "/checkpoints", fs::perms(0777));
  EXPECT_THAT((*RunFolder::Open(path, true))->Notes(),
              ElementsAre(HasSubstr("can write in " + path + "/checkpoints")));
}

TEST(RunFolderTest, AFileInTheWayIsNamed) {
  const std::string path = Fresh("in_the_way");
  std::ofstream(path) << "a file";
  const auto folder = RunFolder::Open(path + "/run", false);
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr(path));
}

}  // namespace
}  // namespace tessera
