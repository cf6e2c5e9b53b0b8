// The signals that ask a program to stop, and how often they have asked.
//
// One request may arrive as several signals: a batch system signals all processes of a job at once,
// so that a rank gets a copy itself and one more from every launcher above it. And SIGXCPU is
// repeated every second once the limit is reached.
#ifndef TESSERA_CORE_POSIX_STOP_REQUESTS_H_
#define TESSERA_CORE_POSIX_STOP_REQUESTS_H_

#include <chrono>
#include <vector>

namespace tessera {

// A later signal is a request of its own; an earlier one is a copy.
inline constexpr std::chrono::seconds kNextRequest{1};

// How long a signal that was sent to all processes of a job may take to reach the last one.
inline constexpr std::chrono::milliseconds kSignalArrives{300};

// Returns whether batch systems send this signal to announce the end of a job: SIGUSR1, SIGUSR2,
// SIGXCPU.
bool IsNotice(int signal);

// Returns the signals with which a user or a batch system stops a program: Ctrl-C (SIGINT),
// SIGTERM, the loss of the terminal (SIGHUP), and notices. Those of SIGHUP and the notices that are
// ignored are omitted, so that a run under nohup continues without its terminal.
std::vector<int> StoppingSignals();

// Counts requests. Thread safety: one thread at a time.
class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts a signal, and returns how many requests there are now, at least one. A signal within
  // kNextRequest after the one that was counted last is a copy of it. A notice begins the first
  // request and is never a further one, and neither is the first signal after notices: it comes
  // while the program saves what it was asked to save.
  int Add(int signal, Clock::time_point now = Clock::now());

 private:
  bool noticed_ = false;
  int interrupts_ = 0;
  Clock::time_point last_;  // of the interrupts that were counted
};

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_STOP_REQUESTS_H_
