// The environment of ranks, their output, and the reports of the launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/posix/available_cores.h"
#include "tools/launch/testing/launched.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_EQ(lines.back(), "");
  lines.pop_back();
  return lines;
}

Ended RunShell(int nproc, const std::string& script,
               const std::map<std::string, std::string>& environment = {}) {
  return RunLauncher({absl::StrCat("--nproc=", nproc), "--grace=0.3", "sh", "-c", script},
                     environment);
}

TEST(LaunchTest, EachLineHasItsRankAndItsStream) {
  const Ended ended = RunShell(2, "echo out $RANK; echo err $RANK >&2; printf 'no end'");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(Lines(ended.output),
              UnorderedElementsAre("[0] out 0", "[0] no end", "[1] out 1", "[1] no end"));
  EXPECT_THAT(Lines(ended.error), UnorderedElementsAre("[0] err 0", "[1] err 1"));
}

TEST(LaunchTest, LinesAreNotMixed) {
  const Ended ended = RunShell(
      3, "i=0; while [ $i -lt 300 ]; do printf 'line '; echo $i of $RANK; i=$((i+1)); done");
  std::map<std::string, int> next;
  for (const std::string& line : Lines(ended.output)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    ASSERT_EQ(words.size(), 5) << line;
    EXPECT_EQ(line, absl::StrCat("[", words[4], "] line ", next[words[4]]++, " of ", words[4]));
  }
  EXPECT_EQ(next["0"] + next["1"] + next["2"], 900);
}

TEST(LaunchTest, TheRanksEnvironment) {
  const Ended ended =
      RunShell(2,
               "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; "
               "echo secret $TESSERA_SECRET $MASTER_PORT; echo fd ${TESSERA_LISTEN_FD:-none}");
  std::vector<std::string> lines = Lines(ended.output);
  EXPECT_THAT(lines, testing::IsSupersetOf(
                         {"[0] 0 2 0 2 127.0.0.1", "[1] 1 2 1 2 127.0.0.1", "[1] fd none"}));
  EXPECT_THAT(lines, Not(testing::Contains("[0] fd none")));
  std::vector<std::string> secrets;
  for (const std::string& line : lines) {
    if (absl::StrContains(line, "secret")) secrets.push_back(line.substr(4));
  }
  ASSERT_EQ(secrets.size(), 2);
  EXPECT_EQ(secrets[0], secrets[1]);
  const std::vector<std::string> words = absl::StrSplit(secrets[0], ' ');
  EXPECT_EQ(words[1].size(), 32);
  EXPECT_TRUE(std::all_of(words[1].begin(), words[1].end(), isxdigit));
  const Ended other = RunShell(1, "echo $TESSERA_SECRET");
  EXPECT_THAT(other.output, Not(HasSubstr(words[1])));
}

TEST(LaunchTest, VariablesOfALauncherAroundIt) {
  const Ended ended =
      RunShell(1, "echo $RANK $WORLD_SIZE x${TORCHELASTIC_USE_AGENT_STORE}x",
               {{"RANK", "7"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(ended.output, "[0] 0 1 xx\n");
}

TEST(LaunchTest, DividesTheCores) {
  const int cores = AvailableCores();
  EXPECT_EQ(RunShell(1, "echo $OMP_NUM_THREADS").output, absl::StrCat("[0] ", cores, "\n"));
  EXPECT_EQ(Lines(RunShell(2, "echo $OMP_NUM_THREADS").output)[0].substr(4),
            absl::StrCat(std::max(1, cores / 2)));
  EXPECT_EQ(RunShell(1, "echo $OMP_NUM_THREADS", {{"OMP_NUM_THREADS", "3"}}).output, "[0] 3\n");
}

// Regression: a rank's communication thread ran on the core of another rank, which was then late in
// each step.
TEST(LaunchTest, RanksRunOnSharesOfTheCores) {
  const int cores = static_cast<int>(AllowedCores().size());
  constexpr char kCount[] = "env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc";
  EXPECT_EQ(RunShell(1, kCount).output, absl::StrCat("[0] ", cores, "\n"));
  for (const std::string& line : Lines(RunShell(cores + 1, kCount).output)) {
    EXPECT_EQ(line.substr(line.find(' ') + 1), absl::StrCat(cores)) << "no even shares";
  }
  if (AvailableCores() < cores) GTEST_SKIP() << "skipped: a control group grants fewer cores";
  const int ranks = cores % 2 == 0 ? 2 : cores;
  const std::vector<std::string> lines =
      Lines(RunShell(ranks, absl::StrCat("echo $(", kCount, ") of $(taskset -cp $$)")).output);
  std::set<std::string> lists;
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr(absl::StrCat("] ", cores / ranks, " of ")));
    lists.insert(line.substr(line.rfind(' ') + 1));
  }
  EXPECT_EQ(lists.size(), ranks);
}

TEST(LaunchTest, RelativePathsStartAtTheUsersFolder) {
  const Ended ended =
      RunLauncher({"--nproc=1", "sh", "-c", "pwd -P"}, {{"BUILD_WORKING_DIRECTORY", "/usr"}});
  EXPECT_EQ(ended.output, "[0] /usr\n");
  EXPECT_EQ(RunLauncher({"--nproc=1", "bin/env", "true"}, {{"BUILD_WORKING_DIRECTORY", "/usr"}})
                .exit_code,
            0);
}

TEST(LaunchTest, RankZeroHasStandardInput) {
  const Ended ended = RunShell(
      1, "echo input | tools/launch/launch --nproc=2 sh -c 'cat; echo end of input $RANK'");
  EXPECT_THAT(Lines(ended.output), UnorderedElementsAre("[0] [0] input", "[0] [0] end of input 0",
                                                        "[0] [1] end of input 1"));
}

TEST(LaunchTest, TheFirstFailingRankIsShownLast) {
  // Rank 1 fails after the others have set up their handling of SIGTERM.
  const Ended ended = RunLauncher(
      {"--nproc=3", "--grace=30", "sh", "-c",
       "cd $TEST_TMPDIR; if [ $RANK = 1 ]; then "
       "  while [ ! -e ready.0 ] || [ ! -e ready.2 ]; do sleep 0.02; done; "
       "  echo the reason >&2; exit 7; "
       "fi; "
       "trap 'echo stopped >&2; exit 9' TERM; touch ready.$RANK; while :; do sleep 0.05; done"});
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_THAT(ended.error, AllOf(HasSubstr("[0] stopped\n"), HasSubstr("[2] stopped\n")));
  EXPECT_THAT(ended.error,
              EndsWith("error: rank 1 failed first, exit code 7; the end of what it wrote to "
                       "standard error:\n[1] the reason\n"));
}

TEST(LaunchTest, ARankThatIsKilled) {
  const Ended ended = RunShell(2, "if [ $RANK = 1 ]; then kill -SEGV $$; fi; sleep 100");
  EXPECT_EQ(ended.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(ended.error, EndsWith("error: rank 1 failed first, killed by SIGSEGV; it wrote "
                                    "nothing to standard error\n"));
}

TEST(LaunchTest, ARankThatIgnoresSigtermIsKilled) {
  const Ended ended = RunShell(
      2, "trap '' TERM; if [ $RANK = 0 ]; then sleep 0.1; exit 3; fi; while :; do sleep 1; done");
  EXPECT_EQ(ended.exit_code, 3);
}

TEST(LaunchTest, OnlyTheEndOfALongErrorIsRepeated) {
  const Ended ended =
      RunShell(1, "i=0; while [ $i -lt 50 ]; do echo line $i >&2; i=$((i+1)); done; exit 1");
  const std::vector<std::string> lines = Lines(ended.error);
  EXPECT_EQ(lines.size(), 50 + 1 + 10);
  EXPECT_EQ(lines.back(), "[0] line 49");
}

TEST(LaunchTest, AFileThatCannotBeRun) {
  const Ended ended = RunLauncher({"--nproc=1", "/proc/self/environ"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("error: cannot start"));
}

TEST(LaunchTest, ErrorsAreOneLine) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"--nproc=0", "true"},
      {"--nproc=2"},
      {"--nproc=2", "--bogus", "true"},
      {"--nproc=2", "no-such-program"},
      {"--nproc=2", "./no/such/program"},
      {"--nproc=2", "/etc/passwd"},
      {"--nproc=2", "/etc"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const Ended ended = RunLauncher(arguments);
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.output, "");
    ASSERT_EQ(Lines(ended.error).size(), 1) << ended.error;
    EXPECT_THAT(ended.error, testing::StartsWith("error: "));
  }
}

TEST(LaunchTest, Help) {
  const Ended ended = RunLauncher({"--help"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("Examples"), HasSubstr("--nproc=N")));
}

TEST(LaunchTest, RanksJoin) {
  for (const std::string& program : {TestRank(), std::string("/usr/bin/env")}) {
    std::vector<std::string> arguments = {"--nproc=3", program};
    if (program != TestRank()) arguments.push_back(TestRank());
    const Ended ended = RunLauncher(arguments);
    EXPECT_EQ(ended.exit_code, 0) << ended.error;
    EXPECT_THAT(Lines(ended.output),
                UnorderedElementsAre("[0] sum 5 of 3 ranks", "[1] sum 5 of 3 ranks",
                                     "[2] sum 5 of 3 ranks"));
    EXPECT_EQ(ended.error, "");
  }
}

TEST(LaunchTest, RanksJoinAlthoughTheDescriptorIsLost) {
  const Ended ended = RunShell(
      2, absl::StrCat("if [ $RANK = 0 ]; then eval \"exec $TESSERA_LISTEN_FD<&-\"; fi; exec ",
                      TestRank()));
  EXPECT_EQ(ended.exit_code, 0) << ended.error;
}

TEST(LaunchTest, AMissingRankIsNamed) {
  const Ended ended =
      RunLauncher({"--nproc=3", "--grace=10", TestRank(), "--seconds=2", "--absent=1"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("rank 1 of 3 did not join at 127.0.0.1:"));
  EXPECT_THAT(ended.error, HasSubstr("within 2 s"));
}

TEST(LaunchTest, TheErrorOfARankReachesTheOthers) {
  const Ended ended = RunLauncher({"--nproc=2", "--grace=10", TestRank(), "--fail=1"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.error, HasSubstr("failed as requested"));
}

TEST(LaunchTest, AnErrorThatIsShownLastIsNotRepeated) {
  const std::string fail = "sleep 0.2; echo error: no luck >&2; exit 3; ";
  Ended ended = RunShell(2, absl::StrCat("if [ $RANK = 1 ]; then ", fail, "fi; sleep 100"));
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.error, "[1] error: no luck\n");
  // Here another rank writes after the failed one.
  ended =
      RunShell(2, absl::StrCat("if [ $RANK = 1 ]; then ", fail,
                               "fi; trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done"));
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.error, HasSubstr("error: rank 1 failed first, exit code 3; the end of what it "
                                     "wrote to standard error:\n[1] error: no luck\n"));
}

// Only rank 1 can end by itself. Regression: the launcher waited for --grace seconds.
TEST(LaunchTest, AStoppedRankIsKilledAtOnceWhenAnotherFails) {
  Launched launched({"--nproc=2", "--grace=60", "sh", "-c",
                     "if [ $RANK = 0 ]; then kill -STOP $$; fi; sleep 0.3; exit 3"});
  EXPECT_TRUE(launched.EndsWithin(20));
  EXPECT_EQ(launched.Wait().exit_code, 3);
}

TEST(LaunchTest, ARankThatEndsAsItsSignalAsksHasNotFailed) {
  Launched launched({"--nproc=2", "--grace=10", "--max_restarts=3", "sh", "-c",
                     "trap 'exit 143' TERM; echo pid $$ of $RANK; while :; do sleep 0.05; done"});
  ASSERT_TRUE(launched.WaitForOutput("of 0\n"));
  ASSERT_TRUE(launched.WaitForOutput("of 1\n"));
  const std::string output = launched.output();
  kill(std::stoi(output.substr(output.find("[1] pid ") + 8)), SIGTERM);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_THAT(
      ended.error,
      AllOf(EndsWith("note: rank 1 ended with exit code 143, as SIGTERM asks: the job ends\n"),
            Not(HasSubstr("error")), Not(HasSubstr("again"))));
}

TEST(LaunchTest, ARankThatASignalKillsHasFailed) {
  const Ended ended = RunShell(2, "if [ $RANK = 1 ]; then kill -TERM $$; fi; sleep 100");
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_THAT(ended.error, HasSubstr("error: rank 1 failed first, killed by SIGTERM"));
}

// A batch system signals every process of a job. Regression: the ranks had ended before the
// launcher got its own copy.
TEST(LaunchTest, TheLauncherMayBeTheLastToGetASignal) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    Launched launched(
        {"--nproc=1", "--max_restarts=3", "sh", "-c", "echo pid $$; exec sleep 1000"});
    ASSERT_TRUE(launched.WaitForOutput("pid"));
    const std::string output = launched.output();
    const pid_t rank = std::stoi(output.substr(output.find("pid ") + 4));
    kill(rank, signal);
    ASSERT_TRUE(Eventually([rank] { return kill(rank, 0) != 0; }));
    kill(launched.pid(), signal);
    const Ended ended = launched.Wait();
    EXPECT_EQ(ended.exit_code, 128 + signal);
    EXPECT_EQ(ended.error, "");
  }
}

}  // namespace
}  // namespace tessera::comm
