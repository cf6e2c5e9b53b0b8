// Checks --max_restarts, which starts all ranks again after a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/launch/testing/launched.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::vector<std::string> Arguments(int max_restarts, const std::string& script) {
  return {"--nproc=2", "--grace=0.3", absl::StrCat("--max_restarts=", max_restarts),
          "sh",        "-c",          script};
}

// Returns a mark: only one test runs a process "sleep MARK".
std::string NewMark() {
  static int tests = 0;
  return absl::StrCat("86300.", getpid(), ++tests);
}

TEST(RestartTest, AJobThatFailsOnceSucceedsWithANewSecret) {
  const Ended ended = RunLauncher(
      Arguments(2,
                "echo secret $TESSERA_SECRET; echo job $TESSERA_JOB_ID; echo run "
                "$TESSERA_RESTART_COUNT of $RANK; "
                "if [ $TESSERA_RESTART_COUNT = 0 ]; then "
                "  if [ $RANK = 1 ]; then sleep 0.1; echo oops >&2; exit 3; fi; sleep 100; "
                "fi"));
  EXPECT_EQ(ended.exit_code, 0) << ended.error;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("run 0 of 0"), HasSubstr("run 0 of 1"),
                                  HasSubstr("run 1 of 0"), HasSubstr("run 1 of 1")));
  EXPECT_THAT(ended.error, AllOf(HasSubstr("error: rank 1 failed first, exit code 3"),
                                 HasSubstr("note: starting all ranks again, restart 1 of 2\n"),
                                 Not(HasSubstr("restart 2"))));
  std::set<std::string> secrets, jobs;
  const std::vector<std::string> lines = absl::StrSplit(ended.output, '\n');
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 3 && words[1] == "secret") secrets.insert(words[2]);
    if (words.size() == 3 && words[1] == "job") jobs.insert(words[2]);
  }
  EXPECT_EQ(secrets.size(), 2);
  EXPECT_EQ(jobs.size(), 1);
  EXPECT_THAT(*jobs.begin(), MatchesRegex("[0-9]{8}-[0-9]{6}-[0-9a-f]{4}"));
}

TEST(RestartTest, RanksFindEachOtherAgain) {
  const Ended ended =
      RunLauncher(Arguments(1, absl::StrCat("if [ $TESSERA_RESTART_COUNT = 0 ]; then exec ",
                                            TestRank(), " --fail=1; fi; exec ", TestRank())));
  EXPECT_EQ(ended.exit_code, 0) << ended.error;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("[0] sum 1 of 2"), HasSubstr("[1] sum 1 of 2")));
}

TEST(RestartTest, GivesUpAfterTheLastRestart) {
  const std::string mark = NewMark();
  const Ended ended = RunLauncher(Arguments(
      2, absl::StrCat("setsid sleep ", mark, " & echo run $TESSERA_RESTART_COUNT; exit 5")));
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("run 0"), HasSubstr("run 1"), HasSubstr("run 2")));
  EXPECT_THAT(ended.output, Not(HasSubstr("run 3")));
  EXPECT_THAT(ended.error, HasSubstr("restart 2 of 2"));
  EXPECT_THAT(ended.error,
              EndsWith("failed first, exit code 5; it wrote nothing to standard error\n"));
  EXPECT_TRUE(ProcessesWith(mark).empty());
}

TEST(RestartTest, AnInterruptedJobIsNotStartedAgain) {
  Launched launched(Arguments(5, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(launched.WaitForOutput("[0] ready"));
  ASSERT_TRUE(launched.WaitForOutput("[1] ready"));
  kill(launched.pid(), SIGTERM);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_THAT(ended.error, Not(HasSubstr("again")));
}

// A batch system announces the end of the job before the ranks have set their handlers. Regression:
// the ranks were started again.
TEST(RestartTest, ANoticeThatKillsRanksIsNoFailure) {
  Launched launched(Arguments(5, "echo ready; exec sleep 100"));
  ASSERT_TRUE(launched.WaitForOutput("[0] ready"));
  ASSERT_TRUE(launched.WaitForOutput("[1] ready"));
  kill(launched.pid(), SIGUSR1);
  ASSERT_TRUE(launched.EndsWithin(20));
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGUSR1);
  EXPECT_EQ(ended.error, "");
}

TEST(RestartTest, AJobThatFailsAfterANoticeIsNotStartedAgain) {
  Launched launched(Arguments(5, "trap 'exit 7' USR2; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(launched.WaitForOutput("[0] ready"));
  ASSERT_TRUE(launched.WaitForOutput("[1] ready"));
  kill(launched.pid(), SIGUSR2);
  ASSERT_TRUE(launched.EndsWithin(20));
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_THAT(ended.error, AllOf(HasSubstr("failed first, exit code 7"), Not(HasSubstr("again"))));
}

// The ranks fail at once, so that the signal arrives at an arbitrary point of a restart.
TEST(RestartTest, ASignalDuringARestartEndsTheJobAndLeavesNothing) {
  const std::string mark = NewMark();
  for (int i = 0; i < 12; ++i) {
    Launched launched(
        Arguments(1'000'000, absl::StrCat("setsid sleep ", mark, " & [ $RANK = 1 ]")));
    EXPECT_TRUE(Eventually(
        [&] { return absl::StrContains(launched.error(), "starting all ranks again"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * i));
    kill(launched.pid(), i % 2 == 0 ? SIGTERM : SIGUSR1);
    EXPECT_TRUE(launched.EndsWithin(10));
    EXPECT_NE(launched.Wait().exit_code, 0);
    EXPECT_TRUE(ProcessesWith(mark).empty());
  }
}

}  // namespace
}  // namespace tessera::comm
