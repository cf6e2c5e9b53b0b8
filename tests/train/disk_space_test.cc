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

// Runs shell commands with a new file system of this size in `disk`, which disappears afterwards.
Result ShellWithDisk(const std::string& size, const std::string& disk,
                     const std::string& commands) {
  return Shell("unshare --mount sh -c \"mount -t tmpfs -o size=" + size + " none " + disk +
               " || exit 99; " + commands + "\"");
}

// Returns the command that trains in disk/run. Its checkpoints have some 35 KiB.
std::string Training(const std::string& disk, const std::vector<std::string>& more) {
  std::vector<std::string> flags = Tiny({"--out=" + disk + "/run", "--save_every=4"});
  flags.insert(flags.end(), more.begin(), more.end());
  return "(" + CommandOf(GptProgram(), flags) + ")";
}

// Returns the command that goes on with the run.
std::string Resuming(const std::string& disk, const std::string& flag) {
  return "(" + CommandOf(GptProgram(), {"--resume=" + disk + "/run", flag}) + ")";
}

Result TrainOnDisk(const std::string& size, const std::vector<std::string>& more) {
  const std::string disk = NewFolder();
  return ShellWithDisk(size, disk, Training(disk, more));
}

// Returns the command that writes a file until the disk is full.
std::string Fill(const std::string& file) {
  return "! dd if=/dev/zero of=" + file + " bs=1k 2>/dev/null";
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

// Regression: a run whose save was killed could not be resumed, because only the next save removed
// the remains.
TEST(DiskSpaceTest, TheRemainsOfAKilledSaveTakeNoRoom) {
  if (!MayMount()) GTEST_SKIP() << "a small file system can only be mounted by root";
  const std::string disk = NewFolder();
  const std::string unfinished = disk + "/run/checkpoints/.tmp-step_00000008-0123abcd";
  const Result result =
      ShellWithDisk("200k", disk,
                    Training(disk, {"--steps=4"}) + " && mkdir " + unfinished + " && " +
                        Fill(unfinished + "/parameters.safetensors") + " && " +
                        Resuming(disk, "--steps=8") + " && ls -A " + disk + "/run/checkpoints");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("going on from step 4, "));
  EXPECT_THAT(result.out, HasSubstr("step_00000008\n"));
  EXPECT_THAT(result.out, Not(HasSubstr(".tmp-step")));
}

// Regression: the notes were not printed, although the checkpoint had been renamed.
TEST(DiskSpaceTest, ARunThatIsRefusedSaysWhatItHasRenamed) {
  if (!MayMount()) GTEST_SKIP() << "a small file system can only be mounted by root";
  const std::string disk = NewFolder();
  const Result result =
      ShellWithDisk("200k", disk,
                    Training(disk, {"--steps=8"}) + " && rm " + disk +
                        "/run/checkpoints/step_00000008/manifest.json && " + Fill(disk + "/other") +
                        " && " + Resuming(disk, "--steps=12"));
  ExpectOneError(result, "/run has ");
  EXPECT_THAT(result.out, HasSubstr("note: the damaged checkpoint step_00000008 is now called "));
}

}  // namespace
}  // namespace tessera
