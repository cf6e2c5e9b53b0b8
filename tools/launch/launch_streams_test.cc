// Checks the launcher's signals, its terminal and the readers of its output.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/launch/testing/launched.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> Arguments(const std::string& script) {
  return {"--nproc=2", "--grace=0.1", "sh", "-c", script};
}

// Regression: `launch ... | head -1` killed all ranks without sending SIGTERM first.
TEST(LaunchStreamsTest, RanksAreSentSigtermWhenTheReaderHasGone) {
  const std::string saved = testing::TempDir() + "/saved.";
  for (const char* rank : {"0", "1"}) std::filesystem::remove(saved + rank);
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  Launched launched(
      Arguments(absl::StrCat("trap 'sleep 0.3; echo x >", saved,
                             "$RANK; exit 0' TERM; while :; do echo line; sleep 0.02; done")),
      {}, fds[1]);
  close(fds[1]);
  // Both have set their traps when they have written.
  std::string shown;
  for (char byte = 0;
       !absl::StrContains(shown, "[0] line") || !absl::StrContains(shown, "[1] line");
       shown += byte) {
    ASSERT_EQ(read(fds[0], &byte, 1), 1);
  }
  close(fds[0]);
  EXPECT_TRUE(launched.EndsWithin(20));
  EXPECT_TRUE(std::filesystem::exists(saved + "0"));
  EXPECT_TRUE(std::filesystem::exists(saved + "1"));
}

// Regression: the launcher was blocked in a write, and did not handle signals.
TEST(LaunchStreamsTest, SignalsWorkWhileTheReaderDoesNotRead) {
  for (const int signal : {SIGTERM, SIGINT}) {
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
    Launched launched({"--nproc=2", "--grace=0.1", "yes"}, {}, fds[1]);
    const int capacity = fcntl(fds[1], F_GETPIPE_SZ);
    close(fds[1]);
    EXPECT_TRUE(Eventually([&] {
      int bytes = 0;
      return ioctl(fds[0], FIONREAD, &bytes) == 0 && bytes > capacity - 4096;
    }));
    kill(launched.pid(), signal);
    EXPECT_TRUE(launched.EndsWithin(20));
    EXPECT_EQ(launched.Wait().exit_code, 128 + signal);
    close(fds[0]);
  }
}

TEST(LaunchStreamsTest, ASlowReaderReceivesEverything) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  Launched launched({"--nproc=1", "sh", "-c", "yes | head -300000"}, {}, fds[1]);
  close(fds[1]);
  EXPECT_FALSE(launched.EndsWithin(0.5));
  std::string text;
  char bytes[65536];
  for (ssize_t got = 0; (got = read(fds[0], bytes, sizeof(bytes))) > 0;) text.append(bytes, got);
  EXPECT_EQ(text.size(), 300'000 * sizeof("[0] y"));
  EXPECT_EQ(launched.Wait().exit_code, 0);
  close(fds[0]);
}

// Slurm sends them before the end of a job's time. Regression: they ended the launcher.
TEST(LaunchStreamsTest, UserSignalsGoToTheRanks) {
  Launched launched(
      Arguments("trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; "
                "while :; do sleep 0.05; done"));
  for (const char* text : {"[0] ready", "[1] ready"}) ASSERT_TRUE(launched.WaitForOutput(text));
  kill(launched.pid(), SIGUSR1);
  for (const char* text : {"[0] one", "[1] one"}) ASSERT_TRUE(launched.WaitForOutput(text));
  kill(launched.pid(), SIGUSR2);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output, HasSubstr("[0] two"));
  EXPECT_THAT(ended.output, HasSubstr("[1] two"));
}

// Regression: the reaper of a rank that had been killed by SIGTERM ended with a signal unread,
// which resets its socket, and the launcher took that for the reaper's death: "killed by SIGKILL".
TEST(LaunchStreamsTest, ARanksEndIsReadAlthoughItsReaperHasNotReadASignal) {
  Launched launched({"--nproc=1", "sh", "-c", "echo ready; exec sleep 1000"});
  ASSERT_TRUE(launched.WaitForOutput("ready"));
  const pid_t launcher = launched.pid();
  const auto status = [](pid_t process) {
    return ReadFile(absl::StrCat("/proc/", process, "/status"));
  };
  const auto is = [&](pid_t process, const std::string& state) {
    return Eventually([&] { return absl::StrContains(status(process), "State:\t" + state); });
  };
  ASSERT_EQ(ChildrenOf(launcher).size(), 1);
  const pid_t reaper = ChildrenOf(launcher)[0];
  ASSERT_EQ(ChildrenOf(reaper).size(), 1);
  const pid_t rank = ChildrenOf(reaper)[0];
  // Two signals wait for the reaper. When it continues, it reads one, and finds that its rank has
  // ended.
  kill(reaper, SIGSTOP);
  ASSERT_TRUE(is(reaper, "T"));
  kill(rank, SIGTERM);
  kill(launcher, SIGUSR1);
  kill(launcher, SIGTERM);
  ASSERT_TRUE(
      Eventually([&] { return absl::StrContains(status(launcher), "ShdPnd:\t0000000000000000"); }));
  ASSERT_TRUE(is(launcher, "S"));
  kill(launcher, SIGSTOP);
  ASSERT_TRUE(is(launcher, "T"));
  kill(reaper, SIGCONT);
  ASSERT_TRUE(is(reaper, "Z"));
  kill(launcher, SIGCONT);
  const Ended ended = launched.Wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_EQ(ended.error, "");
}

TEST(LaunchStreamsTest, RanksStartWithTheSignalsThatTheLauncherStartedWith) {
  const auto signals = [](const std::string& text) {
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      // "SigBlk:\t0000000000000800": the last 8 digits are signals 1 to 32. Runtimes use the
      // others.
      if (absl::StrContains(line, "SigBlk:") || absl::StrContains(line, "SigIgn:")) {
        found += line.substr(line.find("Sig"), 8) + line.substr(line.size() - 8) + "\n";
      }
    }
    return found;
  };
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto alarm_before = signal(SIGALRM, SIG_IGN);
  const auto hangup_before = signal(SIGHUP, SIG_IGN);
  const std::string own = signals(ReadFile("/proc/self/status"));
  const Ended ended = RunLauncher({"--nproc=1", "cat", "/proc/self/status"});
  signal(SIGALRM, alarm_before);
  signal(SIGHUP, hangup_before);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_NE(own, "");
  EXPECT_EQ(signals(ended.output), own);
}

// Rank 0 is in a session of its own, where the kernel does not stop it for reading.
TEST(LaunchStreamsTest, ABackgroundJobDoesNotTakeTheTerminalsInput) {
  const std::string result = absl::StrCat(testing::TempDir(), "/input.", getpid());
  int terminal = 0;
  const pid_t shell = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (shell < 0) GTEST_SKIP() << "this machine has no pseudo-terminals: " << strerror(errno);
  if (shell == 0) {
    const std::string script =
        absl::StrCat("tools/launch/launch --nproc=1 sh -c 'read line; echo got:$line. >", result,
                     "' & echo started; wait");
    execlp("bash", "bash", "-mc", script.c_str(), nullptr);
    _exit(127);
  }
  ASSERT_EQ(write(terminal, "stolen\n", 7), 7);
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(ReadFile(result), "got:"); }));
  EXPECT_EQ(ReadFile(result), "got:.\n");
  kill(shell, SIGKILL);
  waitpid(shell, nullptr, 0);
  close(terminal);
}

}  // namespace
}  // namespace tessera::comm
