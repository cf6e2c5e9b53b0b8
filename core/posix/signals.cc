#include "core/posix/signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "core/status/check.h"

namespace tessera {
namespace {

sigset_t SetOf(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) sigaddset(&set, signal);
  return set;
}

// Returns every signal that another process, a timer or the system can send at any moment.
sigset_t AsynchronousSignals() {
  sigset_t set;
  sigfillset(&set);
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTSTP, SIGTTIN,
                     SIGTTOU, SIGCONT}) {
    sigdelset(&set, signal);
  }
  return set;
}

}  // namespace

SignalThread::SignalThread(const std::vector<int>& handled,
                           std::function<void(int signal)> handle) {
  const sigset_t all = AsynchronousSignals(), set = SetOf(handled);
  sigset_t mask;  // of the thread
  TESSERA_CHECK(pthread_sigmask(SIG_BLOCK, &all, &mask) == 0);
  for (int signal : handled) sigaddset(&mask, signal);
  signals_ = FileDescriptor(signalfd(-1, &set, SFD_CLOEXEC));
  stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  TESSERA_CHECK(signals_.is_open() && stop_.is_open()) << "no file descriptor is left";
  thread_ = std::thread([this, mask, handle = std::move(handle)] {
    pthread_setname_np(pthread_self(), "signals");
    // The signals that are not passed to `handle` are delivered to this thread, because all other
    // threads block them.
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    Run(handle);
  });
}

SignalThread::~SignalThread() {
  const uint64_t one = 1;
  TESSERA_CHECK(write(stop_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

void SignalThread::Run(const std::function<void(int signal)>& handle) {
  pollfd events[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(events, 2, -1) < 0) continue;  // EINTR
    if (events[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) continue;
    handle(static_cast<int>(info.ssi_signo));
  }
}

void TakeDefaultAction(int signal) {
  const sigset_t set = SetOf({signal});
  sigset_t before;
  pthread_sigmask(SIG_UNBLOCK, &set, &before);
  raise(signal);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void LetWritesFail() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

}  // namespace tessera
