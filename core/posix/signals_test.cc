#include "core/posix/signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

// Runs `body` in a child process and returns its wait status. The child has only one thread, and
// its signals do not affect this test.
int InChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

bool WaitUntil(const std::function<bool()>& done) {
  for (int i = 0; i < 5000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done();
}

bool IsBlockedHere(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(SignalThreadTest, HandlesASignalOnItsThread) {
  const int status = InChild([] {
    std::atomic<int> handled{0};
    std::atomic<bool> elsewhere{false};
    const std::thread::id caller = std::this_thread::get_id();
    const SignalThread thread({SIGTERM, SIGUSR1}, [&](int signal) {
      elsewhere = std::this_thread::get_id() != caller;
      handled = signal;
    });
    for (int signal : {SIGTERM, SIGUSR1, SIGTERM}) {
      kill(getpid(), signal);
      if (!WaitUntil([&] { return handled == signal; }) || !elsewhere) _exit(1);
    }
  });
  EXPECT_EQ(status, 0);
}

TEST(SignalThreadTest, BlocksSignalsInTheCallerAndInItsLaterThreads) {
  const int status = InChild([] {
    const SignalThread thread({SIGINT}, [](int) {});
    std::thread([] {
      for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPROF, SIGALRM, SIGQUIT}) {
        if (!IsBlockedHere(signal)) _exit(1);
      }
      for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTSTP}) {
        if (IsBlockedHere(signal)) _exit(2);
      }
    }).join();
    if (!IsBlockedHere(SIGINT)) _exit(3);
  });
  EXPECT_EQ(status, 0);
}

TEST(SignalThreadTest, OtherSignalsKeepTheirDispositions) {
  const int killed = InChild([] {
    const SignalThread thread({SIGINT}, [](int) {});
    kill(getpid(), SIGUSR1);
    WaitUntil([] { return false; });
  });
  EXPECT_TRUE(WIFSIGNALED(killed));
  EXPECT_EQ(WTERMSIG(killed), SIGUSR1);
  const int ignored = InChild([] {
    signal(SIGHUP, SIG_IGN);
    const SignalThread thread;
    kill(getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_EQ(ignored, 0);
}

TEST(SignalThreadTest, AFaultStillEndsTheProcess) {
  const int status = InChild([] {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const SignalThread thread;
    raise(SIGSEGV);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST(SignalThreadTest, TheDefaultActionEndsTheProcessOrIsNothing) {
  const int killed = InChild([] {
    const SignalThread thread({SIGTERM}, TakeDefaultAction);
    kill(getpid(), SIGTERM);
    WaitUntil([] { return false; });
  });
  EXPECT_TRUE(WIFSIGNALED(killed));
  EXPECT_EQ(WTERMSIG(killed), SIGTERM);
  const int ignored = InChild([] {
    signal(SIGINT, SIG_IGN);  // as a shell does for a job in the background
    const SignalThread thread({SIGINT}, TakeDefaultAction);
    kill(getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  EXPECT_EQ(ignored, 0);
}

TEST(LetWritesFailTest, AClosedPipeAndAFileThatIsTooLarge) {
  const int status = InChild([] {
    LetWritesFail();
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    close(ends[0]);
    if (write(ends[1], "x", 1) != -1 || errno != EPIPE) _exit(2);
    const rlimit limit = {4, 4};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string path = ::testing::TempDir() + "/large";
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(fd, "1234", 4) != 4) _exit(3);
    if (write(fd, "5", 1) != -1 || errno != EFBIG) _exit(4);
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tessera
