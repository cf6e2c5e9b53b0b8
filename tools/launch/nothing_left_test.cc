// Checks that no process of a job survives it, however the job ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/launch/testing/launched.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Tests find their own processes by a number of seconds that no other process sleeps.
class NothingLeftTest : public ::testing::Test {
 protected:
  NothingLeftTest() {
    static int tests = 0;
    mark_ = absl::StrCat("86400.", getpid(), ++tests);
  }
  ~NothingLeftTest() override {
    for (const pid_t pid : Sleepers()) kill(pid, SIGKILL);
  }

  std::vector<pid_t> Sleepers() const { return ProcessesWith(mark_); }

  // Each rank starts a child, one in a session of its own, and one whose parent has ended and that
  // has no environment; then it prints "ready".
  std::string Script(const std::string& then) const {
    return absl::StrCat("sleep ", mark_, " & setsid sleep ", mark_, " & (env -i setsid sleep ",
                        mark_, " </dev/null >/dev/null 2>&1 &) ; ", "sleep 0.1; echo ready $RANK; ",
                        then);
  }
  std::vector<std::string> Arguments(const std::string& then) const {
    return {"--nproc=2", "--grace=0.3", "sh", "-c", Script(then)};
  }
  static bool IsReady(const Launched& launched) {
    return launched.WaitForOutput("ready 0") && launched.WaitForOutput("ready 1");
  }
  // The command lines of the shells contain the mark too.
  void ExpectNothingLeft(double seconds = 5) const {
    EXPECT_TRUE(Eventually([this] { return Sleepers().empty(); }, seconds))
        << Sleepers().size() << " processes are left";
  }

  std::string mark_;
};

TEST_F(NothingLeftTest, TheRanksSucceed) {
  const Ended ended = RunLauncher(Arguments("exit 0"));
  EXPECT_EQ(ended.exit_code, 0);
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, ARankFails) {
  const Ended ended = RunLauncher(Arguments("[ $RANK = 0 ] || exit 4; wait"));
  EXPECT_EQ(ended.exit_code, 4);
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, TheChildrenOfARankThatIsKilledDieBeforeTheJobEnds) {
  Launched launched(Arguments("echo pid $RANK $$; wait"));
  ASSERT_TRUE(launched.WaitForOutput("pid 1 "));
  const std::string output = launched.output();
  const int pid = std::stoi(output.substr(output.find("pid 1 ") + 6));
  ASSERT_TRUE(IsReady(launched));
  kill(pid, SIGKILL);
  EXPECT_EQ(launched.Wait().exit_code, 128 + SIGKILL);
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, TheLauncherIsKilled) {
  Launched launched(Arguments("wait"));
  ASSERT_TRUE(IsReady(launched));
  EXPECT_TRUE(Eventually([this] { return Sleepers().size() >= 8; }));
  const std::vector<pid_t> reapers = ChildrenOf(launched.pid());
  EXPECT_EQ(reapers.size(), 2);
  kill(launched.pid(), SIGKILL);
  EXPECT_EQ(launched.Wait().exit_code, 128 + SIGKILL);
  ExpectNothingLeft();
  for (const pid_t reaper : reapers) {
    EXPECT_TRUE(Eventually([reaper] { return kill(reaper, 0) != 0; }, 5));
  }
}

TEST_F(NothingLeftTest, TheLauncherIsKilledWhileItStarts) {
  for (int microseconds = 0; microseconds < 20'000; microseconds += 1000) {
    Launched launched({"--nproc=4", "sleep", mark_});
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    kill(launched.pid(), SIGKILL);
    launched.Wait();
    ExpectNothingLeft();
  }
}

TEST_F(NothingLeftTest, LauncherAndRanksAreKilled) {
  Launched launched(Arguments("wait"));
  ASSERT_TRUE(IsReady(launched));
  std::vector<pid_t> pids = {launched.pid()};
  for (const pid_t reaper : ChildrenOf(launched.pid())) {
    for (const pid_t rank : ChildrenOf(reaper)) pids.push_back(rank);
  }
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  launched.Wait();
  ExpectNothingLeft();
}

TEST_F(NothingLeftTest, AReaperIsKilled) {
  Launched launched(Arguments("wait"));
  ASSERT_TRUE(IsReady(launched));
  const std::vector<pid_t> reapers = ChildrenOf(launched.pid());
  ASSERT_FALSE(reapers.empty());
  kill(reapers[0], SIGKILL);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_THAT(ended.error, HasSubstr("failed first, killed by SIGKILL"));
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, ProcessesThatTheLauncherDidNotStartStay) {
  // The inner launcher replaces (exec) a shell that has a child.
  const Ended ended = RunLauncher(
      {"--nproc=1", "sh", "-c",
       absl::StrCat("sh -c 'sleep ", mark_, " & echo $! >$TEST_TMPDIR/", mark_,
                    "; exec tools/launch/launch --nproc=1 true'; kill -0 $(cat $TEST_TMPDIR/",
                    mark_, ")")});
  EXPECT_EQ(ended.exit_code, 0) << ended.error;
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, CtrlC) {
  Launched launched(Arguments("wait"));
  ASSERT_TRUE(IsReady(launched));
  kill(launched.pid(), SIGINT);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_THAT(ended.error, Not(HasSubstr("error")));
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, RanksMayTakeTheirTimeAfterCtrlC) {
  const std::string script =
      "trap 'sleep 0.$((5 * RANK)); echo saved; exit 130' INT; echo ready $RANK; "
      "while :; do sleep 0.05; done";
  Launched launched({"--nproc=2", "--grace=0.1", "sh", "-c", script});
  ASSERT_TRUE(IsReady(launched));
  kill(launched.pid(), SIGINT);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_THAT(ended.output, HasSubstr("[0] saved"));
  EXPECT_THAT(ended.output, HasSubstr("[1] saved"));
  EXPECT_EQ(ended.error, "");
}

TEST_F(NothingLeftTest, Sigterm) {
  Launched launched(Arguments("wait"));
  ASSERT_TRUE(IsReady(launched));
  kill(launched.pid(), SIGTERM);
  EXPECT_EQ(launched.Wait().exit_code, 128 + SIGTERM);
  ExpectNothingLeft(0);
}

TEST_F(NothingLeftTest, TheThirdCtrlCKills) {
  Launched launched(Arguments("trap '' INT; while :; do sleep 1; done"));
  ASSERT_TRUE(IsReady(launched));
  EXPECT_TRUE(Eventually([&] {
    kill(launched.pid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return ChildrenOf(getpid()).empty();
  }));
  EXPECT_EQ(launched.Wait().exit_code, 128 + SIGKILL);
  ExpectNothingLeft(0);
}

}  // namespace
}  // namespace tessera::comm
