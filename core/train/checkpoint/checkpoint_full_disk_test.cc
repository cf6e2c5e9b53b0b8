// A disk that becomes full while a checkpoint is written: the error is one clear line, no files
// remain, and earlier checkpoints are unchanged.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
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

using ::testing::HasSubstr;

// Runs `body` in a child process and returns its result, at most a pipe's buffer of text.
std::string InChild(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string result = body();
    _exit(write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size()) ? 0
                                                                                              : 1);
  }
  close(ends[1]);
  std::string result;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    result.append(buffer, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return "the child did not end well";
  return result;
}

// Returns "" if the checkpoint of step 10 is unchanged and there is nothing else, otherwise the
// fault.
std::string WhatIsLeftIsWrong(const std::string& run) {
  const auto names = ListFolder(run + "/checkpoints");
  if (!names.ok()) return absl::StrCat(names.status().message());
  if (*names != std::vector<std::string>{"step_00000010"}) return "something was left behind";
  const auto opened = OpenCheckpoint(run);
  if (!opened.ok()) return absl::StrCat(opened.status().message());
  return Difference(*opened->checkpoint);
}

// All these limits of a file's size are too small for the checkpoint.
TEST(CheckpointFullDiskTest, NamesAFileThatMayNotGrow) {
  const std::string run = NewFolder("limit");
  ASSERT_TRUE(SaveForTest(run, 10).ok());
  for (rlim_t bytes : {0, 1, 100, 600, 1000, 1200, 2222, 4096, 4500}) {
    const std::string result = InChild([&]() -> std::string {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {bytes, bytes};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return strerror(errno);
      return SaveForTest(run, 20).status().ToString();
    });
    EXPECT_THAT(result, HasSubstr("RESOURCE_EXHAUSTED: cannot save the checkpoint of step 20: "
                                  "cannot write "));
    EXPECT_THAT(result, HasSubstr("File too large; earlier checkpoints are as they were"));
    EXPECT_EQ(WhatIsLeftIsWrong(run), "") << "limit " << bytes;
  }
}

// Saves step 20 on file systems with a growing limit, until it fits. Returns the first fault.
std::string GrowUntilItFits(const std::string& run, const std::string& what,
                            const std::string& unit) {
  int failed = 0;
  for (int size = 1; size < 200; ++size) {
    const std::string options = absl::StrCat(what, "=", size, unit);
    if (mount("none", run.c_str(), "tmpfs", 0, options.c_str()) != 0) return strerror(errno);
    std::string wrong;
    if (SaveForTest(run, 10).ok()) {
      const absl::Status status = SaveForTest(run, 20).status();
      if (status.ok()) {
        umount(run.c_str());
        return failed > 0 ? "" : "it always had room";
      }
      ++failed;
      if (!absl::IsResourceExhausted(status) ||
          !absl::StrContains(status.message(), "No space left on device; earlier")) {
        wrong = status.ToString();
      }
      if (wrong.empty()) wrong = WhatIsLeftIsWrong(run);
    } else if (ListFolder(run)->size() > 1 ||
               (Exists(run + "/checkpoints") && !ListFolder(run + "/checkpoints")->empty())) {
      wrong = "the first save left something behind";
    }
    umount(run.c_str());
    if (!wrong.empty()) return absl::StrCat("with ", options, ": ", wrong);
  }
  return "it never had room";
}

// Blocks and inodes run out at every file of a save.
TEST(CheckpointFullDiskTest, SaysThatTheDiskIsFull) {
  const std::string run = NewFolder("disk");
  const auto in_own_namespace = [&](const std::function<std::string()>& body) {
    return InChild([&]() -> std::string {
      // The mounts of this namespace disappear with the process.
      if (unshare(CLONE_NEWNS) != 0 ||
          mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          mount("none", run.c_str(), "tmpfs", 0, "size=4k") != 0) {
        return "may not mount";
      }
      umount(run.c_str());
      return body();
    });
  };
  for (const auto& [what, unit] : {std::pair("size", "k"), {"nr_inodes", ""}}) {
    const std::string result = in_own_namespace(
        [&, what = what, unit = unit] { return GrowUntilItFits(run, what, unit); });
    if (result == "may not mount") {
      GTEST_SKIP() << "a small file system can only be mounted by root";
    }
    EXPECT_EQ(result, "");
  }
}

}  // namespace
}  // namespace tessera
