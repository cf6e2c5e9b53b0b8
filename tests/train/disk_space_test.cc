// Runs on small disks: one that could not be saved does not begin to train.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Trains in a new file system of this size that disappears afterwards. Its checkpoints have some
// 35 KiB.
Result TrainOnDisk(const std::string& size, const std::vector<std::string>& more) {
  const std::string disk = NewFolder();
  std::vector<std::string> flags = Tiny({"--out=" + disk + "/run", "--save_every=4"});
  flags.insert(flags.end(), more.begin(), more.end());
  return Shell("unshare --mount sh -c \"mount -t tmpfs -o size=" + size + " none " + disk +
               " || exit 99; " + CommandOf(GptProgram(), flags) + "\"");
}

bool MayMount() {
  return Shell("unshare --mount sh -c 'mount -t tmpfs none " + NewFolder() + "'").code == 0;
}

TEST(DiskSpaceTest, ARunThatCannotBeSavedIsRefused) {
  if (!MayMount()) GTEST_SKIP() << "a small file system can only be mounted by root";
  for (const std::string ranks : {"1", "2"}) {
    const std::string strategy = ranks == "1" ? "--nproc=1" : "--strategy=fsdp";
    const Result result = TrainOnDisk("24k", {"--nproc=" + ranks, strategy});
    ExpectOneError(result, "/run has ");
    EXPECT_THAT(result.err, HasSubstr("KiB free, and a checkpoint takes "));
    EXPECT_THAT(result.out, Not(HasSubstr("| loss ")));
  }
}

TEST(DiskSpaceTest, LessRoomThanTheRunNeedsIsNoted) {
  if (!MayMount()) GTEST_SKIP() << "a small file system can only be mounted by root";
  // One checkpoint is kept, and one written.
  const Result noted = TrainOnDisk("100k", {"--set=keep_checkpoints=4"});
  EXPECT_THAT(noted.out, HasSubstr("enough for 2 checkpoints of "));
  EXPECT_THAT(noted.out, HasSubstr("and the run adds 5 (one while it is written)"));
  EXPECT_NE(noted.code, 0) << "the note was right";
  const Result fits = TrainOnDisk("200k", {"--set=keep_checkpoints=1"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_THAT(fits.out, Not(HasSubstr("enough for")));
}

}  // namespace
}  // namespace tessera
