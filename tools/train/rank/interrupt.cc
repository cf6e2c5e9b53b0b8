#include "tools/train/rank/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/posix/stop_requests.h"

namespace tessera {
namespace {

std::atomic<bool> stop_on_interrupts{false};
std::atomic<bool> reports{true};
std::atomic<int> caught{0};
std::atomic<bool> is_stop_collective{false};

// Handles a signal on the signal thread.
void Handle(StopRequests& requests, int signal) {
  if (!stop_on_interrupts) {
    TakeDefaultAction(signal);
    return;
  }
  if (requests.Add(signal) > 1) _exit(128 + signal);
  if (caught != 0) return;
  caught = signal;
  if (!reports) return;
  const std::string message = absl::StrCat("\nstopping after this step, as SIG",
                                           sigabbrev_np(signal), " asks; ", kStopsAtOnce, "\n");
  if (write(STDERR_FILENO, message.data(), message.size()) < 0) return;
}

}  // namespace

std::unique_ptr<SignalThread> StartSignalThread() {
  return std::make_unique<SignalThread>(
      StoppingSignals(),
      [requests = StopRequests()](int signal) mutable { Handle(requests, signal); });
}

void StopOnInterrupts(bool one_rank) {
  reports = one_rank;
  stop_on_interrupts = true;
}

void SetStopIsCollective() { is_stop_collective = true; }

bool IsStopCollective() { return is_stop_collective; }

int CaughtSignal() { return caught; }

}  // namespace tessera
