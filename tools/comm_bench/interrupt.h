// Signals that stop a benchmark (core/posix/stop_requests.h): the first request aborts the
// operations of the job, so that all ranks end with one line; the second one ends this process at
// once.
#ifndef TESSERA_TOOLS_COMM_BENCH_INTERRUPT_H_
#define TESSERA_TOOLS_COMM_BENCH_INTERRUPT_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "collectives/world.h"
#include "core/posix/signals.h"
#include "core/posix/stop_requests.h"
#include "core/sync/mutex.h"

namespace tessera::comm {

// Takes the signals of this process. Construct it on the first line of main, as SignalThread.
//
// Thread safety: one thread at a time.
class Interrupt {
 public:
  Interrupt();

  // From now on the first signal aborts the operations of `world`; until then it ends this process
  // as it does by default. Pass null before the world is destroyed: a first signal after that has
  // no effect, as the process is about to end.
  void set_world(World* world);

  // Returns the signal that stopped this rank, or 0.
  int signal() const;

 private:
  void Handle(int signal);

  mutable Mutex mutex_;
  World* world_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool had_world_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  StopRequests requests_ ABSL_GUARDED_BY(mutex_);
  SignalThread thread_;  // last: its handler uses the others
};

// Returns the error with which a rank aborts when a signal stops it.
absl::Status InterruptError(int signal);

// Returns the signal that is named in `error`, if that reports such an abort of another rank; else
// 0.
int SignalInError(const absl::Status& error);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_COMM_BENCH_INTERRUPT_H_
