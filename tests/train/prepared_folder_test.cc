// Walks over every path that a run opens in its folder, and puts there what another user may have
// prepared: links, FIFOs, sockets, folders, files of another owner. Whatever it is, nothing outside
// of the run's folder changes, the program ends, and an error is one line that names the folder.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/posix/testing/obstacles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/program.h"
#include "tests/train/rank_program.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kHangs = 124;  // the exit code of timeout(1)

// Runs a command with a limit of its time, as a job that has a name: its run has one more file.
Result RunInTime(const std::string& command) {
  return Shell("exec env TESSERA_JOB_ID=walk timeout -k 5 100 " + command);
}

std::string CommandLineOf(const std::string& program, const std::vector<std::string>& flags) {
  std::string command = program;
  for (const std::string& flag : flags) command += " '" + flag + "'";
  return command;
}

// Flags of a run of two steps that writes every kind of file.
std::vector<std::string> New(const std::string& run) {
  return Tiny({"--out=" + run, "--steps=2", "--dump=memory"});
}

std::vector<std::string> Resumed(const std::string& run) {
  return {"--resume=" + run, "--steps=4", "--dump=memory"};
}

class PreparedFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Paths of sockets must be short, and other users may enter this.
    char name[] = "/tmp/walk_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    ASSERT_EQ(chmod(name, 0755), 0);
    folder_ = name;
    run_ = folder_ + "/run";
    MakeVictim(folder_ + "/victim");
    before_ = Snapshot(folder_ + "/victim");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void ExpectHarmless(const Result& result) const {
    EXPECT_EQ(Snapshot(folder_ + "/victim"), before_);
    EXPECT_NE(result.code, kHangs);
    EXPECT_EQ(result.signal, 0);
    if (result.code == 0) return;
    EXPECT_EQ(result.code, 1) << result.out << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("error: "), HasSubstr(run_)));
    EXPECT_EQ(CountOf("\n", result.err), 1) << result.err;
  }

  std::string folder_, run_;
  std::string before_;
};

// Returns the paths below a run's folder that a run of one process opens: those that it leaves, and
// the names that files and checkpoints have while they are written.
std::vector<std::string> PathsOfARun(const std::string& run) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string path = fs::relative(entry.path(), run).string();
    paths.push_back(path);
    const bool checkpoint = path.find("step_") != std::string::npos;
    if (entry.is_regular_file() && !checkpoint) paths.push_back(path + ".tmp");
  }
  for (const char* prefix : {".tmp-", ".old-"}) {
    paths.push_back(std::string("checkpoints/") + prefix + "step_00000002");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class PreparedFolderWalk : public PreparedFolderTest,
                           public ::testing::WithParamInterface<Obstacle> {
 protected:
  void SetUp() override {
    PreparedFolderTest::SetUp();
    const Result result = RunInTime(CommandLineOf(GptProgram(), New(run_)));
    ASSERT_EQ(result.code, 0) << result.err;
    paths_ = PathsOfARun(run_);
    for (const char* path : {"config.textproto", "metrics.jsonl", "job", "dump/memory.txt.tmp",
                             "checkpoints/step_00000002/manifest.json"}) {
      EXPECT_THAT(paths_, ::testing::Contains(path));
    }
    fs::rename(run_, folder_ + "/saved");
  }

  std::vector<std::string> paths_;
};

// Some obstacles are replaced by the run's own file, others are refused. The log of the metrics is
// extended in its place, so it must be the run's own.
void ExpectRefusedWhereNeeded(const std::string& path, Obstacle obstacle, const Result& result) {
  if (path == "metrics.jsonl") {
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("/metrics.jsonl is a"));
  }
  if ((path == "checkpoints" || path == "dump") && obstacle != Obstacle::kFolder) {
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("/" + path + " is a"), HasSubstr(", not a folder")));
  }
}

// Regression: a link in place of metrics.jsonl truncated the file to which it led, and a FIFO made
// the run wait, whatever signal it got.
TEST_P(PreparedFolderWalk, ANewRun) {
  for (const std::string& path : paths_) {
    if (path.find("/step_00000002/") != std::string::npos) continue;  // that is a run already
    SCOPED_TRACE(path + " is " + NameOf(GetParam()));
    fs::remove_all(run_);
    Put(GetParam(), run_ + "/" + path, folder_ + "/victim");
    const Result result = RunInTime(CommandLineOf(GptProgram(), New(run_)));
    ExpectHarmless(result);
    ExpectRefusedWhereNeeded(path, GetParam(), result);
  }
}

TEST_P(PreparedFolderWalk, AResumedRun) {
  for (const std::string& path : paths_) {
    SCOPED_TRACE(path + " is " + NameOf(GetParam()));
    fs::remove_all(run_);
    fs::copy(folder_ + "/saved", run_, fs::copy_options::recursive);
    Put(GetParam(), run_ + "/" + path, folder_ + "/victim");
    const Result result = RunInTime(CommandLineOf(GptProgram(), Resumed(run_)));
    ExpectHarmless(result);
    ExpectRefusedWhereNeeded(path, GetParam(), result);
  }
}

// Other ranks look for a file of rank 0, and write into its folder.
TEST_P(PreparedFolderWalk, ARunOfTwoRanks) {
  for (const std::string path : {"seen_by_all_ranks", "seen_by_all_ranks.tmp", "checkpoints"}) {
    SCOPED_TRACE(path + " is " + NameOf(GetParam()));
    fs::remove_all(run_);
    Put(GetParam(), run_ + "/" + path, folder_ + "/victim");
    const std::vector<std::string> flags = OnRanksBy("ddp", 2, {"--out=" + run_, "--steps=2"});
    const Result result = RunInTime(CommandLineOf(GptProgram(), flags));
    ExpectHarmless(result);
    ExpectRefusedWhereNeeded(path, GetParam(), result);
    if (GetParam() != Obstacle::kFolder && path != "checkpoints") {
      EXPECT_EQ(result.code, 0) << result.err;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PreparedFolderWalk, ::testing::ValuesIn(AllObstacles()),
                         [](const ::testing::TestParamInfo<Obstacle>& info) {
                           std::string name = NameOf(info.param);
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// Regression: the checkpoints of another run were pruned through a link.
TEST_F(PreparedFolderTest, CheckpointsInALinkedFolderAreNotPruned) {
  const std::string other = folder_ + "/other";
  ASSERT_EQ(RunInTime(CommandLineOf(GptProgram(), New(other))).code, 0);
  ASSERT_EQ(RunInTime(CommandLineOf(GptProgram(), New(run_))).code, 0);
  fs::remove_all(run_ + "/checkpoints");
  fs::create_symlink(other + "/checkpoints", run_ + "/checkpoints");
  const std::string unchanged = Snapshot(other);
  std::vector<std::string> flags = Resumed(run_);
  flags.push_back("--set=keep_checkpoints=1");
  const Result result = RunInTime(CommandLineOf(GptProgram(), flags));
  ExpectHarmless(result);
  EXPECT_THAT(result.err, HasSubstr("/run/checkpoints is a symbolic link, not a folder"));
  EXPECT_EQ(Snapshot(other), unchanged);
}

// A run prunes its own checkpoints, also after it was resumed, and names others once.
TEST_F(PreparedFolderTest, CheckpointsOfAnotherRunAreNamedAndLeft) {
  std::vector<std::string> flags = New(folder_ + "/other");
  flags.insert(flags.end(), {"--seed=77", "--steps=1"});
  ASSERT_EQ(RunInTime(CommandLineOf(GptProgram(), flags)).code, 0);
  ASSERT_EQ(RunInTime(CommandLineOf(GptProgram(), New(run_))).code, 0);
  const std::string foreign = run_ + "/checkpoints/step_00000001";
  fs::copy(folder_ + "/other/checkpoints/step_00000001", foreign, fs::copy_options::recursive);
  const std::string unchanged = Snapshot(foreign);
  const Result result =
      RunInTime(CommandLineOf(GptProgram(), {"--resume=" + run_, "--steps=8", "--save_every=1",
                                             "--set=keep_checkpoints=1"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(CountOf("note: " + foreign + " was not saved by this run", result.out), 1)
      << result.out;
  EXPECT_EQ(Snapshot(foreign), unchanged);
  EXPECT_THAT(Checkpoints(run_), ::testing::ElementsAre("step_00000008", "step_00000001"));
}

TEST_F(PreparedFolderTest, ALinkOfThisUserMayLeadToTheRunFolder) {
  fs::create_directories(folder_ + "/elsewhere");
  fs::create_symlink("elsewhere", run_);
  Result result = RunInTime(CommandLineOf(GptProgram(), New(run_)));
  EXPECT_EQ(result.code, 0) << result.err;
  result = RunInTime(CommandLineOf(GptProgram(), Resumed(run_)));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(fs::exists(folder_ + "/elsewhere/checkpoints/step_00000004"));
}

TEST_F(PreparedFolderTest, ATraceIsNotWaitedFor) {
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::vector<std::string> flags = Tiny({"--out=" + run_, "--steps=4", "--trace=" + fifo});
  const Result result = RunInTime(CommandLineOf(GptProgram(), flags));
  ExpectOneError(result, fifo + ": it is a FIFO, and no process reads it");
  flags[flags.size() - 3] = "--out=" + folder_ + "/read";
  const Result read = Shell("timeout 100 cat " + fifo + " > " + folder_ + "/copy & timeout 100 " +
                            CommandLineOf(GptProgram(), flags) +
                            " && wait && grep -c traceEvents " + folder_ + "/copy");
  EXPECT_EQ(read.code, 0) << read.err;
}

// The rates of the machine are kept in a file of the user's cache folder.
TEST_F(PreparedFolderTest, TheFileOfRatesIsNotWaitedFor) {
  const std::string file = folder_ + "/cache/tessera/machine.json";
  for (const Obstacle obstacle : AllObstacles()) {
    SCOPED_TRACE(NameOf(obstacle));
    fs::remove_all(run_);
    Put(obstacle, file, folder_ + "/victim");
    const Result result = RunInTime("env XDG_CACHE_HOME=" + folder_ + "/cache " +
                                    CommandLineOf(GptProgram(), New(run_)));
    EXPECT_EQ(result.code, 0) << result.err;
    ExpectHarmless(result);
  }
}

// Files and folders of another user than the one as whom the program runs.
class OwnerTest : public PreparedFolderTest {
 protected:
  static constexpr uid_t kUser = kOtherUser - 1;

  void SetUp() override {
    PreparedFolderTest::SetUp();
    if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
    // Other users may not be able to read the test's own folders.
    program_ = folder_ + "/train";
    fs::copy_file(GptProgram(), program_);
    fs::copy_file(TextFile(), folder_ + "/text");
    fs::permissions(folder_ + "/text", fs::perms(0644));
    fs::create_directories(folder_ + "/home");
    ChangeOwner(folder_ + "/home", kUser, 0755);
    run_ = folder_ + "/home/run";
  }

  static void ChangeOwner(const std::string& path, uid_t owner, mode_t mode) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0) << path;
    ASSERT_EQ(chown(path.c_str(), owner, owner), 0) << path;
  }

  Result RunAs(uid_t user, std::vector<std::string> flags) const {
    std::replace(flags.begin(), flags.end(), "--data=" + TextFile(), "--data=" + folder_ + "/text");
    const std::string id = std::to_string(user);
    return RunInTime("setpriv --reuid=" + id + " --regid=" + id + " --clear-groups env " +
                     "XDG_CACHE_HOME=" + folder_ + "/home/cache " + CommandLineOf(program_, flags));
  }

  std::string program_;
};

TEST_F(OwnerTest, AFolderOfAnotherUserIsRefused) {
  fs::create_directories(run_);
  ChangeOwner(run_, kOtherUser, 0777);
  for (const std::vector<std::string>& flags : {New(run_), Resumed(run_)}) {
    const Result result = RunAs(kUser, flags);
    ExpectHarmless(result);
    EXPECT_THAT(result.err, HasSubstr(run_ + " belongs to user 65532, and this is user 65531"));
  }
  // A folder in it is the user's own.
  EXPECT_EQ(RunAs(kUser, New(run_ + "/mine")).code, 0);
}

TEST_F(OwnerTest, RootMayUseAFolderOfAnotherUserAndIsTold) {
  fs::create_directories(run_);
  ChangeOwner(run_, kUser, 0755);
  const Result result = RunAs(0, New(run_));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: " + run_ +
                                    " belongs to user 65531, who can change what "
                                    "root saves there"));
}

TEST_F(OwnerTest, AFolderThatEveryoneCanWriteIsNamed) {
  fs::create_directories(run_);
  ChangeOwner(run_, kUser, 0777);
  const Result result = RunAs(kUser, New(run_));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("note: every user of the host can write in " + run_));
  ChangeOwner(run_, kUser, 0755);
  EXPECT_THAT(RunAs(kUser, Resumed(run_)).out, Not(HasSubstr("every user")));
}

TEST_F(OwnerTest, ALinkOfAnotherUserIsNotFollowed) {
  fs::create_directories(folder_ + "/home/elsewhere");
  ChangeOwner(folder_ + "/home/elsewhere", kUser, 0755);
  fs::create_symlink("elsewhere", run_);
  ASSERT_EQ(lchown(run_.c_str(), kOtherUser, kOtherUser), 0);
  const Result result = RunAs(kUser, New(run_));
  ExpectHarmless(result);
  EXPECT_THAT(result.err, HasSubstr(run_ + " is a symbolic link of user 65532"));
  EXPECT_TRUE(fs::is_empty(folder_ + "/home/elsewhere"));
}

TEST_F(OwnerTest, FilesOfAnotherUserAreReplacedOrRefused) {
  ASSERT_EQ(RunAs(kUser, New(run_)).code, 0);
  const std::string saved = folder_ + "/saved";
  fs::copy(run_, saved, fs::copy_options::recursive);
  for (const std::string& path : PathsOfARun(saved)) {
    if (!fs::exists(saved + "/" + path)) continue;
    SCOPED_TRACE(path);
    fs::remove_all(run_);
    fs::copy(saved, run_, fs::copy_options::recursive);
    Shell("chown -R " + std::to_string(kUser) + " " + run_);
    const std::string entry = run_ + "/" + path;
    ChangeOwner(entry, kOtherUser, fs::is_directory(entry) ? 0777 : 0666);
    const Result result = RunAs(kUser, Resumed(run_));
    ExpectHarmless(result);
    const bool refused = path == "metrics.jsonl" || path == "checkpoints" || path == "dump";
    EXPECT_EQ(result.code, refused ? 1 : 0) << result.err;
    if (refused) {
      EXPECT_THAT(result.err, HasSubstr(entry + " belongs to user 65532"));
    }
  }
}

}  // namespace
}  // namespace tessera
