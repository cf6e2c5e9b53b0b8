#include "tools/train/folder/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::string Fresh(const std::string& name) {
  std::string path = ::testing::TempDir() + "/" + name;
  EXPECT_TRUE(RemoveTree(path).ok());
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
  ASSERT_TRUE(MakeFolders(path).ok());
  std::ofstream(path + "/config.textproto") << "steps: 1\n";
  EXPECT_FALSE(HoldsRunWithoutCheckpoint(path));
  const auto folder = RunFolder::Open(path, false);
  EXPECT_TRUE(absl::IsAlreadyExists(folder.status())) << folder.status();
}

TEST(RunFolderTest, AFolderThatWasMadeForNothingGoesAgain) {
  const std::string path = Fresh("for_nothing");
  ASSERT_TRUE(RunFolder::Open(path, false).ok());
  EXPECT_FALSE(Exists(path));
  ASSERT_TRUE(MakeFolders(path).ok());
  ASSERT_TRUE(RunFolder::Open(path, false).ok());
  EXPECT_TRUE(Exists(path)) << "it was there before";
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
