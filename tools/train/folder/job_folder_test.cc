#include "tools/train/folder/job_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

namespace tessera {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

JobAttempt Read(const std::map<std::string, std::string>& variables) {
  return ReadJobAttempt([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// Makes a run folder of a job, with or without a checkpoint.
std::string NewRun(const std::string& name, const JobAttempt& attempt, bool has_checkpoint) {
  const std::string path = ::testing::TempDir() + name;
  std::filesystem::remove_all(path);
  auto folder = RunFolder::Open(path, /*resuming=*/false);
  EXPECT_TRUE(folder.ok()) << folder.status();
  EXPECT_TRUE(RecordJob(attempt, folder->get()).ok());
  if (has_checkpoint) std::filesystem::create_directories(path + "/checkpoints/step_00000003");
  return path;
}

TEST(JobFolderTest, HowALauncherStartsAJob) {
  EXPECT_EQ(Read({}).id, "");
  EXPECT_EQ(Read({}).restarts, 0);
  const JobAttempt ours =
      Read({{"TESSERA_JOB_ID", "20250131-235959-1f3c"}, {"TESSERA_RESTART_COUNT", "2"}});
  EXPECT_EQ(ours.id, "20250131-235959-1f3c");
  EXPECT_EQ(ours.restarts, 2);
  const JobAttempt torchrun =
      Read({{"TORCHELASTIC_RUN_ID", "none"}, {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(torchrun.id, "torchrun-none");
  EXPECT_EQ(torchrun.restarts, 1);
}

TEST(JobFolderTest, ANewRunHasTheNameOfItsJob) {
  CommandLine line;
  EXPECT_THAT(FolderOfJob(line, "gpt", {"20250131-235959-1f3c", 0}),
              EndsWith("/runs/gpt-20250131-235959-1f3c"));
  EXPECT_THAT(FolderOfJob(line, "gpt", {}), HasSubstr("/runs/gpt-2"));
  line.out = "/a/folder";
  EXPECT_EQ(FolderOfJob(line, "gpt", {"20250131-235959-1f3c", 0}), "/a/folder");
}

TEST(JobFolderTest, ARequeuedJobResumesWhateverRunIsInItsFolder) {
  CommandLine line;
  line.requeue = true;
  line.out = NewRun("requeued", {"20250131-235959-1f3c", 0}, /*has_checkpoint=*/true);
  for (const JobAttempt& attempt : {JobAttempt(), JobAttempt{"20250201-000000-0001", 2}}) {
    EXPECT_EQ(*FolderToResume(line, "gpt", attempt), line.out);
  }
  line.out = NewRun("stopped_early", {}, /*has_checkpoint=*/false);
  EXPECT_EQ(*FolderToResume(line, "gpt", {}), "");
  line.out = ::testing::TempDir() + "no_such_folder";
  EXPECT_EQ(*FolderToResume(line, "gpt", {}), "");
}

TEST(JobFolderTest, AJobThatIsStartedAgainResumesItsOwnRunOnly) {
  const JobAttempt first = {"20250131-235959-1f3c", 0}, again = {"20250131-235959-1f3c", 1};
  const std::string own = NewRun("own", first, /*has_checkpoint=*/true);
  const std::string empty = NewRun("empty", first, /*has_checkpoint=*/false);
  const std::string other = NewRun("other", {"20250131-235959-ffff", 0}, /*has_checkpoint=*/true);
  const auto resumes = [](const std::string& out, const JobAttempt& attempt) {
    CommandLine line;
    line.out = out;
    const auto folder = FolderToResume(line, "gpt", attempt);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *folder;
  };
  EXPECT_EQ(resumes(own, again), own);
  EXPECT_EQ(resumes(own, first), "");
  EXPECT_EQ(resumes(empty, again), "");
  EXPECT_EQ(resumes(other, again), "");
  EXPECT_EQ(resumes("/nowhere", again), "");
  // Regression: the file was read to its end.
  std::filesystem::resize_file(other + "/job", int64_t{1} << 40);
  EXPECT_EQ(resumes(other, again), "");
}

TEST(JobFolderTest, AJobWithoutANameNeedsItsFolder) {
  const auto folder = FolderToResume(CommandLine(), "gpt", {"torchrun-none", 1});
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("has no --out=DIR"));
  CommandLine resumed;
  resumed.resume = "/a/run";  // the run resumes this one in any case
  EXPECT_TRUE(FolderToResume(resumed, "gpt", {"torchrun-none", 1}).ok());
}

}  // namespace
}  // namespace tessera
