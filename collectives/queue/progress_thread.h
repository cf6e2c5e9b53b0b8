// A thread on which operations move on that no other thread waits for.
#ifndef TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_
#define TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "core/sync/mutex.h"

namespace tessera::comm {

// The thread of a progress engine. Most operations are waited for soon after they were issued, and
// then the waiting thread moves them on. So this thread sleeps, but after it had something to do it
// polls every two milliseconds for a while: to wake it each time would take longer than many
// operations. With polls every half millisecond an all-reduce of 256 KiB over TCP and computation
// beside it, on a host without an idle core, took 17 % longer than one after the other.
//
// It has the default policy and priority, and no affinity. It sleeps until a message is complete,
// and so is woken seldom. The time that it then takes from computation is mostly copies, reduction
// and the kernel's TCP, and no priority makes those shorter.
//
// Thread safety: Wake may be called by any thread, also with locks held that `advance` takes.
class ProgressThread {
 public:
  // `advance` moves operations on until there are none, or until another thread waits for them. It
  // returns whether there were any, or another thread waits. It is called on the thread, and must
  // return soon after Stop.
  explicit ProgressThread(std::function<bool()> advance);
  ~ProgressThread() { Join(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // There is something for `advance`, which is called at once, or if it need not be, within two
  // milliseconds if the thread still polls.
  void Wake(bool at_once);

  // `advance` is not called again.
  void Stop();
  bool is_stopped() const { return stop_; }
  // Stops, and waits until it does not run either.
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
