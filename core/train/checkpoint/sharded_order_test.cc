// Checks the order in which a save syncs and renames files, and a sync that fails: this program's
// own fsync and renameat record each call before they forward it.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

std::vector<std::string>* calls = nullptr;  // null: nothing is recorded
std::string fails;                          // the call that fails, if it is recorded

// Returns the last name of a path, without the number of a temporary folder.
std::string NameOf(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  const size_t number = name.rfind('-');
  if (absl::StartsWith(name, ".tmp-step") && number > 4) name.resize(number);
  return name;
}

// Records a call, and returns whether it fails.
bool Note(const std::string& call) {
  if (calls == nullptr) return false;
  calls->push_back(call);
  return call == fails;
}

}  // namespace
}  // namespace tessera

extern "C" int fsync(int fd) {
  char path[4096];
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  struct stat info;
  if (length > 0 && fstat(fd, &info) == 0) {
    const std::string name = tessera::NameOf(std::string(path, length));
    const bool failed =
        tessera::Note(S_ISDIR(info.st_mode) ? absl::StrCat("sync ", name)
                                            : absl::StrCat("sync ", name, " of ", info.st_size));
    if (failed) {
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  tessera::Note(absl::StrCat("rename ", tessera::NameOf(from), " to ", tessera::NameOf(to)));
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

namespace tessera {
namespace {

TEST(ShardedOrderTest, TheManifestComesAfterAllFilesAndTheNameAfterTheManifest) {
  const std::string run = NewFolder("order");
  ASSERT_TRUE(SaveShardedForTest(run, 10, 2, OptionsForTest(0)).ok());
  std::vector<std::string> noted;
  calls = &noted;
  const auto saved = SaveShardedForTest(run, 20, 2, OptionsForTest(1));
  calls = nullptr;
  ASSERT_TRUE(saved.ok()) << saved.status();
  // Every file is synced once, with all its bytes.
  const auto synced = [&](const std::string& name) {
    return absl::StrCat("sync ", name, " of ", ReadFile(saved->folder + "/" + name).size());
  };
  EXPECT_THAT(noted, ElementsAre("sync checkpoints",  // the temporary folder's name
                                 synced("parameters-rank00000.safetensors"),
                                 synced("optimizer-rank00000.safetensors"),
                                 synced("parameters-rank00001.safetensors"),
                                 synced("optimizer-rank00001.safetensors"),
                                 synced("plan.textproto"), synced("config.textproto"),
                                 synced("manifest.json"), "sync .tmp-step_00000020",
                                 "rename .tmp-step_00000020 to step_00000020", "sync checkpoints",
                                 // The old one is removed only then.
                                 "rename step_00000010 to .tmp-step_00000010"));
}

// Regression: the error said that earlier checkpoints were as they had been, although that of the
// same step had been replaced.
TEST(ShardedOrderTest, SaysSoIfTheNewCheckpointMayNotBeOnTheDisk) {
  const std::string run = NewFolder("run");
  ASSERT_TRUE(SaveForTest(run, 1).ok());
  std::vector<std::string> noted;
  SaveOptions options = OptionsForTest(1);
  options.before_change = [&](absl::string_view what) {
    if (what != "sync the folder of checkpoints") return;
    calls = &noted;
    fails = "sync checkpoints";
  };
  CheckpointContents contents = ContentsForTest(1);
  contents.config = "the new one";
  const absl::Status status = SaveCheckpoint(run, contents, ReadStateForTest(1), options).status();
  calls = nullptr;
  fails.clear();
  EXPECT_THAT(std::string(status.message()),
              ::testing::EndsWith(run + "/checkpoints/step_00000001 is complete, but a crash of "
                                        "the system may undo it"));
  EXPECT_EQ(OpenCheckpoint(run)->checkpoint->config(), "the new one");
}

// All files of a pruned checkpoint are removed, those of all ranks included.
TEST(ShardedOrderTest, PruningRemovesTheFilesOfAllRanks) {
  const std::string run = NewFolder("prune");
  for (int64_t step : {10, 20, 30}) {
    ASSERT_TRUE(SaveShardedForTest(run, step, 5, OptionsForTest(2)).ok());
  }
  EXPECT_THAT(*ListFolder(run + "/checkpoints"), ElementsAre("step_00000020", "step_00000030"));
  ASSERT_TRUE(SaveForTest(run, 40, 1).ok());
  EXPECT_THAT(*ListFolder(run + "/checkpoints"), ElementsAre("step_00000040"));
}

}  // namespace
}  // namespace tessera
