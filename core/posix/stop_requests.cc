#include "core/posix/stop_requests.h"

#include <signal.h>

#include <algorithm>

namespace tessera {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

bool IsNotice(int signal) { return signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGXCPU; }

std::vector<int> StoppingSignals() {
  std::vector<int> signals = {SIGINT, SIGTERM};
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    if (!IsIgnored(signal)) signals.push_back(signal);
  }
  return signals;
}

int StopRequests::Add(int signal, Clock::time_point now) {
  if (IsNotice(signal)) {
    noticed_ = true;
  } else if (interrupts_ == 0 || now - last_ >= kNextRequest) {
    ++interrupts_;
    last_ = now;
  }
  return std::max(interrupts_, noticed_ ? 1 : 0);
}

}  // namespace tessera
