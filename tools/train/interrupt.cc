#include "tools/train/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tessera {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Everything here must be safe in a signal handler.
void Handle(int signal) {
  if (caught.exchange(signal) != 0) _exit(128 + signal);
  constexpr char kMessage[] = "\nstopping when this step is done; once more stops at once\n";
  if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) return;
}

}  // namespace

void CatchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int Interrupted() { return caught.load(); }

}  // namespace tessera
