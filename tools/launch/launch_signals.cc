#include "tools/launch/launch_signals.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace tessera::comm {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

}  // namespace

absl::StatusOr<LaunchSignals> LaunchSignals::Take() {
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  sigaddset(&taken, SIGPIPE);
  for (const int signal : kPassedOn) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&taken, signal);
  }
  LaunchSignals signals;
  sigprocmask(SIG_BLOCK, &taken, &signals.original_mask_);
  signals.fd_ = FileDescriptor(signalfd(/*fd=*/-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.fd_.is_open()) return absl::ErrnoToStatus(errno, "cannot read signals");
  return signals;
}

int LaunchSignals::Next() {
  signalfd_siginfo info;
  while (read(fd(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal != SIGCHLD && signal != SIGPIPE) return signal;
    if (signal == SIGPIPE) continue;  // OutputSink has seen it
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
  return 0;
}

}  // namespace tessera::comm
