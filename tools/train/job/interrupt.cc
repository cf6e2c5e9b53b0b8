#include "tools/train/job/interrupt.h"

#include <unistd.h>

#include <atomic>

namespace tessera {
namespace {

std::atomic<bool> stop_on_interrupts{false};
std::atomic<bool> reports{true};
std::atomic<int> caught{0};

void Handle(int signal) {
  if (!stop_on_interrupts) {
    TakeDefaultAction(signal);
    return;
  }
  if (caught.exchange(signal) != 0) _exit(128 + signal);
  if (!reports) return;
  constexpr char kMessage[] = "\nstopping after this step; a second signal stops at once\n";
  if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) return;
}

}  // namespace

std::unique_ptr<SignalThread> TakeInterrupts() {
  return std::make_unique<SignalThread>(InterruptingSignals(), Handle);
}

void StopOnInterrupts(bool one_rank) {
  reports = one_rank;
  stop_on_interrupts = true;
}

int Interrupted() { return caught; }

}  // namespace tessera
