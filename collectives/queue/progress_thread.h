// A thread that advances the operations that no other thread waits for.
#ifndef TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_
#define TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "core/sync/mutex.h"

namespace tessera::comm {

// The thread of a progress engine. Most operations are waited for soon after they were issued, and
// then the waiting thread advances them. So this thread sleeps, but after it had work it polls
// every two milliseconds for a while: waking it each time would take longer than many operations.
// With polls every half millisecond, an all-reduce of 256 KiB over TCP beside computation, on a
// host without an idle core, took 17 % longer than the two in sequence.
//
// It has the default policy and priority, and no affinity, but a time slice of 0.1 ms. Linux lets a
// thread that wakes up interrupt one with a longer slice (since 6.12; earlier versions ignore it);
// otherwise it waits until computation has used up its own slice, 1.4 ms on two cores. Between two
// emulated hosts with two ranks each, all on two cores, 10 to 36 % of an all-reduce of 1 MiB was
// hidden behind computation with the default slice, 53 to 76 % with this one; of 4 MiB 38 to 77 %,
// and 75 to 93.
//
// It sleeps until a message is complete, so it is seldom woken. The time that it takes from
// computation is mostly copies, reduction and the kernel's TCP; a different priority does not
// shorten those. Beside computation, on a host without an idle core, all-reduces of 256 KiB to
// 16 MiB over TCP took this share of the two in sequence: 1.00 to 1.04 with the default, 1.00 to
// 1.05 with a nice value of 5, 1.01 to 1.05 with SCHED_BATCH, and 1.00 to 1.03 with a nice value of
// -5, which needs a privilege.
//
// Thread safety: any thread may call Wake, even while it holds locks that `advance` takes.
class ProgressThread {
 public:
  // `advance` advances operations until there are none, or until another thread waits for them. It
  // returns whether there were any or another thread waits. It is called on the thread, and must
  // return soon after Stop.
  explicit ProgressThread(std::function<bool()> advance);
  ~ProgressThread() { Join(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Reports that there is work for `advance`. With `at_once` it is called at once; without, within
  // two milliseconds if the thread still polls, and otherwise at once too.
  void Wake(bool at_once);

  // Ends the loop: `advance` is not called again.
  void Stop();
  bool is_stopped() const { return stop_; }
  // Stops, and waits until the thread has ended.
  void Join();

 private:
  void Run();

  const std::function<bool()> advance_;
  std::atomic<bool> stop_ = false;
  Mutex mutex_;
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool looks_ ABSL_GUARDED_BY(mutex_) = false;
  ConditionVariable wakes_;
  std::thread thread_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_
