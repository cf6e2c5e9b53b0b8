// How operations move on that nobody waits for.
#ifndef TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_
#define TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::comm {

// A backend's thread. Most operations are waited for soon after they were issued, and then the rank
// that waits moves them on. So the thread sleeps, but after it had something to do it stays up for
// a while and looks now and then: to wake it each time would take longer than many an operation.
//
// Thread safety: Wake may be called by any thread, also with locks held that `advance` takes.
class ProgressThread {
 public:
  // `advance` moves on what nobody waits for until there is nothing of the kind, or until somebody
  // waits. It returns whether there was something, or is somebody at it. It is called on the
  // thread, and is to return soon after Stop.
  explicit ProgressThread(std::function<bool()> advance);
  ~ProgressThread() { Join(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // There is something for `advance`: it is called at once, or if it need not be, within half a
  // millisecond where the thread is up.
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
  std::mutex mutex_;  // guards what follows
  bool is_wanted_ = false, looks_ = false;
  std::condition_variable wakes_;
  std::thread thread_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_PROGRESS_THREAD_H_
