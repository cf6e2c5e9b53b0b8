#include "tools/train/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <vector>

namespace tessera {
namespace {

std::atomic<bool> stop_on_interrupts{false};
std::atomic<int> caught{0};

void Handle(int signal) {
  if (!stop_on_interrupts) {
    TakeDefaultAction(signal);
    return;
  }
  if (caught.exchange(signal) != 0) _exit(128 + signal);
  constexpr char kMessage[] = "\nstopping after this step; a second signal stops at once\n";
  if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) return;
}

// nohup ignores SIGHUP, so that a run outlives its terminal.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

std::unique_ptr<SignalThread> TakeInterrupts() {
  std::vector<int> signals = {SIGINT, SIGTERM};
  if (!IsIgnored(SIGHUP)) signals.push_back(SIGHUP);
  return std::make_unique<SignalThread>(signals, Handle);
}

void StopOnInterrupts() { stop_on_interrupts = true; }

int Interrupted() { return caught; }

}  // namespace tessera
