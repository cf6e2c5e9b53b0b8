#include "core/posix/stop_requests.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr StopRequests::Clock::time_point kStart{};

TEST(StopRequestsTest, ASignalWithinASecondIsACopy) {
  StopRequests requests;
  EXPECT_EQ(requests.Add(SIGTERM, kStart), 1);
  EXPECT_EQ(requests.Add(SIGTERM, kStart), 1);
  EXPECT_EQ(requests.Add(SIGINT, kStart + milliseconds(999)), 1);
  EXPECT_EQ(requests.Add(SIGTERM, kStart + milliseconds(1000)), 2);
  EXPECT_EQ(requests.Add(SIGTERM, kStart + milliseconds(1999)), 2);
  EXPECT_EQ(requests.Add(SIGTERM, kStart + milliseconds(2000)), 3);
}

TEST(StopRequestsTest, NoticesAreOneRequest) {
  StopRequests requests;
  for (int second = 0; second < 10; ++second) {
    for (const int signal : {SIGXCPU, SIGUSR1, SIGUSR2}) {
      EXPECT_EQ(requests.Add(signal, kStart + milliseconds(1000 * second)), 1);
    }
  }
  EXPECT_EQ(requests.Add(SIGTERM, kStart + milliseconds(60'000)), 1);
  EXPECT_EQ(requests.Add(SIGTERM, kStart + milliseconds(61'000)), 2);
  EXPECT_EQ(requests.Add(SIGUSR1, kStart + milliseconds(70'000)), 2);
}

TEST(StoppingSignalsTest, IgnoredOnesAreOmitted) {
  EXPECT_EQ(StoppingSignals(),
            (std::vector<int>{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}));
  const pid_t child = fork();
  if (child == 0) {
    for (const int each : {SIGINT, SIGHUP, SIGUSR2}) signal(each, SIG_IGN);
    _exit(StoppingSignals() == std::vector<int>{SIGINT, SIGTERM, SIGUSR1, SIGXCPU} ? 7 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace tessera
