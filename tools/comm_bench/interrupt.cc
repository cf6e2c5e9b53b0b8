#include "tools/comm_bench/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera::comm {

Interrupt::Interrupt() : thread_(StoppingSignals(), [this](int signal) { Handle(signal); }) {}

void Interrupt::set_world(World* world) {
  MutexLock lock(&mutex_);
  world_ = world;
  had_world_ = true;
}

int Interrupt::signal() const {
  MutexLock lock(&mutex_);
  return signal_;
}

void Interrupt::Handle(int signal) {
  MutexLock lock(&mutex_);
  if (!had_world_) {
    TakeDefaultAction(signal);
    return;
  }
  if (requests_.Add(signal) > 1) _exit(128 + signal);
  if (signal_ != 0) return;
  signal_ = signal;
  if (world_ == nullptr) return;
  const absl::Status why = InterruptError(signal);
  world_->communicator().Abort(why);
  if (&world_->cpu_communicator() != &world_->communicator()) world_->cpu_communicator().Abort(why);
}

absl::Status InterruptError(int signal) {
  return absl::CancelledError(absl::StrCat("stopped by SIG", sigabbrev_np(signal)));
}

int SignalInError(const absl::Status& error) {
  // The reason of an abort reaches the other ranks as text.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    if (absl::StrContains(error.message(), InterruptError(signal).message())) return signal;
  }
  return 0;
}

}  // namespace tessera::comm
