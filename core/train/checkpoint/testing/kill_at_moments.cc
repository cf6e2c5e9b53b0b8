#include "core/train/checkpoint/testing/kill_at_moments.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gtest/gtest.h"

namespace tessera {

pid_t Child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

void Copy(const std::string& from, const std::string& to) {
  ASSERT_TRUE(RemoveTree(to).ok());
  std::error_code error;
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  ASSERT_FALSE(error) << error.message();
}

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

void ExpectClean(const std::string& run, size_t count) {
  EXPECT_EQ(ListFolder(CheckpointsFolder(run))->size(), count);
  EXPECT_EQ(ListCheckpoints(CheckpointsFolder(run))->size(), count);
}

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

}  // namespace tessera
