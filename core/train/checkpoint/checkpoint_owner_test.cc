// A save writes and removes only what is its run's: links are not followed, and what others have
// put among the checkpoints is left.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/posix/testing/obstacles.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/remains.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::StatusOr<SavedCheckpoint> SaveOfRun(const std::string& run, const std::string& identity,
                                          int64_t step, int keep) {
  CheckpointContents contents = ContentsForTest(step);
  contents.run = identity;
  return SaveCheckpoint(run, contents, ReadStateForTest(step), OptionsForTest(keep));
}

std::vector<std::string> Names(const std::string& run) { return *ListFolder(run + "/checkpoints"); }

// A run, and beside it a folder that must not change.
class CheckpointOwnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MakeVictim(victim_);
    before_ = Snapshot(victim_);
  }
  void TearDown() override { EXPECT_EQ(Snapshot(victim_), before_); }

  const std::string run_ = NewFolder("run");
  const std::string victim_ = NewFolder("victim");
  std::string before_;
};

// Regression: the checkpoints of another run, to which the folder was linked, were pruned.
TEST_F(CheckpointOwnerTest, ALinkedFolderOfCheckpointsIsRefused) {
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket || obstacle == Obstacle::kFolder) continue;
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, run_ + "/checkpoints", victim_);
    const absl::Status status = SaveForTest(run_, 10, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(run_ + "/checkpoints is a"), HasSubstr(", not a folder")));
  }
}

// Every name that a save uses, before it begins and while it runs.
TEST_F(CheckpointOwnerTest, NothingIsWrittenThroughWhatIsPrepared) {
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket) continue;  // its path may be too long
    SCOPED_TRACE(NameOf(obstacle));
    for (const std::string name : {"step_00000020", ".old-step_00000020", ".tmp-step_00000010"}) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(RemoveTree(run_).ok());
      ASSERT_TRUE(SaveForTest(run_, 10, 1).ok());
      Put(obstacle, run_ + "/checkpoints/" + name, victim_);
      const auto saved = SaveForTest(run_, 20, 1);
      EXPECT_EQ(saved.ok(), name[0] == '.') << saved.status();
      EXPECT_THAT(Names(run_), Contains(name)) << "it is left";
      const std::string message = saved.ok() ? absl::StrCat(saved->warnings.front())
                                             : absl::StrCat(saved.status().message());
      EXPECT_THAT(message, AllOf(HasSubstr(name), HasSubstr("move it away")));
      EXPECT_EQ(Snapshot(victim_), before_);
    }
    for (const std::string file : {"manifest.json", "plan.textproto", "parameters.safetensors"}) {
      SCOPED_TRACE(file);
      ASSERT_TRUE(RemoveTree(run_).ok());
      SaveOptions options = OptionsForTest(1);
      options.before_change = [&](absl::string_view what) {
        if (what != "create " + file) return;
        for (const auto& entry : fs::directory_iterator(run_ + "/checkpoints")) {
          Put(obstacle, entry.path().string() + "/" + file, victim_);
        }
      };
      const absl::Status status =
          SaveCheckpoint(run_, ContentsForTest(10), ReadStateForTest(10), options).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
      EXPECT_THAT(std::string(status.message()), HasSubstr(file));
      EXPECT_EQ(Snapshot(victim_), before_);
    }
  }
}

TEST_F(CheckpointOwnerTest, CheckpointsOfAnotherRunAreLeft) {
  ASSERT_TRUE(SaveOfRun(run_, "another", 10, 3).ok());
  ASSERT_TRUE(SaveOfRun(run_, "", 15, 3).ok());  // of an older version
  ASSERT_TRUE(SaveOfRun(run_, "mine", 20, 3).ok());
  ASSERT_TRUE(SaveOfRun(run_, "mine", 30, 0).ok());
  const auto saved = SaveOfRun(run_, "mine", 40, 2);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_THAT(Names(run_),
              ElementsAre("step_00000010", "step_00000015", "step_00000030", "step_00000040"));
  EXPECT_THAT(saved->warnings,
              ElementsAre(HasSubstr("step_00000015 was not saved by this run (its manifest names "
                                    "another one) and is left as it is: move it away"),
                          HasSubstr("step_00000010 was not saved by this run")));
  // They take no place among those that are kept, and are not replaced.
  ASSERT_TRUE(SaveOfRun(run_, "another", 50, 0).ok());
  ASSERT_TRUE(SaveOfRun(run_, "mine", 60, 2).ok());
  EXPECT_THAT(Names(run_), ElementsAre("step_00000010", "step_00000015", "step_00000040",
                                       "step_00000050", "step_00000060"));
  const absl::Status status = SaveOfRun(run_, "mine", 50, 2).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step_00000050 was not saved by this run"),
                    HasSubstr("earlier checkpoints are as they were")));
  EXPECT_EQ(*RunThatSaved(OpenForTest(run_ + "/checkpoints/step_00000050")), "another");
}

// A folder with a checkpoint's name and without a manifest may be anything.
TEST_F(CheckpointOwnerTest, FoldersWithoutAManifestAreLeft) {
  ASSERT_TRUE(SaveForTest(run_, 10, 1).ok());
  ASSERT_TRUE(RemoveTree(run_ + "/checkpoints/step_00000010/manifest.json").ok());
  const auto saved = SaveForTest(run_, 20, 1);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_THAT(saved->warnings, ElementsAre(HasSubstr("step_00000010 was not saved by this run")));
  EXPECT_THAT(Names(run_), SizeIs(2));
}

// Nothing that a run did not write is removed, nor is anything beside it.
TEST_F(CheckpointOwnerTest, FoldersThatHoldSomethingElseAreLeft) {
  for (const std::string name :
       {"/notes.txt", "/folder/", "/manifest.json.bak", "/data.safetensors/"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(RemoveTree(run_).ok());
    ASSERT_TRUE(SaveForTest(run_, 10, 1).ok());
    const std::string folder = run_ + "/checkpoints/step_00000010";
    if (name.back() == '/') {
      ASSERT_TRUE(MakeFolders(folder + name).ok());
    } else {
      WriteFile(folder + name, "mine");
    }
    const std::vector<std::string> files = *ListFolder(folder);
    const auto saved = SaveForTest(run_, 20, 1);
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_THAT(saved->warnings, SizeIs(1));
    EXPECT_THAT(saved->warnings[0], AllOf(HasSubstr("cannot remove " + folder),
                                          HasSubstr("which is no part of a checkpoint")));
    EXPECT_EQ(*ListFolder(folder), files);
    // Nor are such remains of a killed save.
    ASSERT_TRUE(RenameFolder(folder, run_ + "/checkpoints/.tmp-step_00000010").ok());
    EXPECT_THAT(*RemoveRemains(CheckpointsForTest(run_)), SizeIs(1));
    EXPECT_EQ(*ListFolder(run_ + "/checkpoints/.tmp-step_00000010"), files);
  }
}

TEST_F(CheckpointOwnerTest, LinksInACheckpointAreRemovedAndNotFollowed) {
  ASSERT_TRUE(SaveForTest(run_, 10, 1).ok());
  const std::string file = run_ + "/checkpoints/step_00000010/optimizer.safetensors";
  Put(Obstacle::kLink, file, victim_);
  ASSERT_TRUE(SaveForTest(run_, 20, 1).ok());
  EXPECT_THAT(Names(run_), ElementsAre("step_00000020"));
}

TEST_F(CheckpointOwnerTest, FilesThatAreLinksOfAnotherUserAreNotRead) {
  if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
  const auto saved = SaveForTest(run_, 10);
  ASSERT_TRUE(saved.ok()) << saved.status();
  for (const char* name : {"/manifest.json", "/parameters.safetensors", "/config.textproto"}) {
    const std::string path = saved->folder + name, moved = run_ + "/moved";
    ASSERT_TRUE(RenameFolder(path, moved).ok());
    fs::create_symlink("../../moved", path);
    EXPECT_TRUE(Checkpoint::Open(saved->folder).ok()) << "links of this user are followed";
    ASSERT_EQ(lchown(path.c_str(), kOtherUser, kOtherUser), 0);
    const absl::Status status = Checkpoint::Open(saved->folder).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + " is a symbolic link of user"));
    ASSERT_TRUE(RenameFolder(moved, path).ok());
  }
}

// The folders of a run, made in /tmp so that another user can enter them.
TEST_F(CheckpointOwnerTest, FoldersOfAnotherUserAreRefused) {
  if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
  char name[] = "/tmp/owner_XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string run = std::string(name) + "/run", checkpoints = run + "/checkpoints";
  ASSERT_TRUE(MakeFolders(checkpoints).ok());
  const auto own = [](const std::string& path, uid_t owner) {
    ASSERT_EQ(chmod(path.c_str(), 0777), 0);
    ASSERT_EQ(chown(path.c_str(), owner, owner), 0);
  };
  constexpr uid_t kUser = kOtherUser - 1;
  const auto save = [&run] {
    EXPECT_EQ(seteuid(kUser), 0);
    const absl::Status status = SaveForTest(run, 10).status();
    EXPECT_EQ(seteuid(0), 0);
    return status;
  };
  own(name, kUser);
  own(run, kUser);
  own(checkpoints, kOtherUser);
  EXPECT_THAT(std::string(save().message()), HasSubstr(checkpoints + " belongs to user 65532"));
  own(run, kOtherUser);
  own(checkpoints, kUser);
  EXPECT_THAT(std::string(save().message()), HasSubstr(run + " belongs to user 65532"));
  EXPECT_TRUE(SaveForTest(run, 10).ok()) << "root may use any folder";
  ASSERT_TRUE(RemoveTree(checkpoints).ok());
  own(run, 0);
  EXPECT_TRUE(save().ok()) << "root's folder";
  ASSERT_TRUE(RemoveTree(name).ok());
}

}  // namespace
}  // namespace tessera
