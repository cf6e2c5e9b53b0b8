// Advances the operations of several groups: on a thread that waits for one of them, or, if none
// waits, on the engine's own thread.
#ifndef TESSERA_COLLECTIVES_QUEUE_PROGRESS_ENGINE_H_
#define TESSERA_COLLECTIVES_QUEUE_PROGRESS_ENGINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/queue/progress_thread.h"
#include "core/sync/mutex.h"

namespace tessera::comm {

class QueuedGroup;

// Interface by which a rank learns that a peer has done something. Each backend implements it. Its
// waits follow the protocol of an eventcount, so that no event is lost:
//
//   PrepareWait();
//   if (there is work) CancelWait(); else CommitWait(at_most);
//
// An event before PrepareWait has returned is seen by the look for work; a later one ends
// CommitWait at once. One thread at a time waits.
class EventSource {
 public:
  virtual ~EventSource() = default;

  // Processes the events that have arrived, without waiting. Returns whether there were any. Called
  // with the engine's mutex held.
  virtual bool TakeEvents() { return false; }

  // Returns whether there is work besides the groups' operations. Called with the mutex held.
  virtual bool NeedsThread() const { return false; }

  // Announces a wait. `in_background`: the thread that waits is the engine's own. Computation runs
  // beside it, so few wake-ups matter more than early ones.
  virtual void PrepareWait(bool /*in_background*/) {}
  // Sleeps until an event arrives, but no longer than `at_most`. May return early.
  virtual void CommitWait(std::chrono::nanoseconds at_most) = 0;
  // Ends an announced wait without sleeping.
  virtual void CancelWait() {}

  // Counts as an event. Any thread may call it.
  virtual void Wake() = 0;
};

// The event source for operations that end without events of peers: only Wake ends a wait.
class NoEvents : public EventSource {
 public:
  void PrepareWait(bool in_background) override;
  void CommitWait(std::chrono::nanoseconds at_most) override;
  void Wake() override;

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread safety: functions may be called from any thread, except those annotated as needing the
// mutex.
class ProgressEngine : public CompletionSource {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    bool spins = true;       // a waiting thread polls before it sleeps
    bool has_thread = true;  // false: operations advance only while a thread waits
  };

  // `events` outlives the engine.
  ProgressEngine(EventSource* events, Options options);
  ~ProgressEngine() override { Stop(); }
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Guards the state of all groups of the engine, and of their backend.
  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // Tells the compiler that the caller holds the mutex.
  void AssertMutexHeld() ABSL_ASSERT_EXCLUSIVE_LOCK(mutex_) {}

  // Ends the engine's thread. Afterwards operations advance only while a thread waits.
  void Stop();

  void Add(QueuedGroup* group);
  // Processes the group's submitted operations, then removes the group. It must submit none
  // afterwards.
  void Remove(QueuedGroup* group);

  // An issued operation, or an error that ends its group.
  struct Submission {
    QueuedGroup* group = nullptr;
    int channel = 0;
    Request request;
    absl::Status error;
  };
  // Submits an operation and returns its number on its channel. *issued is the channel's next
  // number; an operation raises it by one, an error does not. Never waits for other work: if
  // another thread is advancing operations, that thread takes the submission.
  uint64_t Submit(Submission submission, uint64_t* issued);

  // Advances operations until `done` returns true. `done` may look only at atomics.
  void WaitUntil(const std::function<bool()>& done) override;
  // Advances operations, unless another thread does.
  void Poll();
  void Watch(CompletionWatcher* watcher) override;
  void Unwatch(CompletionWatcher* watcher) override;

  // Records that an operation, or all operations of a group, have ended.
  void Completed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { completed_ = true; }

  // Releases the mutex, calls `run`, and takes the mutex again. Called from a step that advances
  // operations.
  void RunUnlocked(const std::function<void()>& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns the clock for time-outs of peers. It excludes time in which nothing ran here because
  // the process was stopped or no thread waited: ranks of a job that was stopped and continued get
  // their full time again.
  Time Now() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  enum class Sleeper : uint8_t { kNone, kCaller, kThread };

  // Takes the submissions and events that have arrived, and advances all operations by one step.
  // Returns whether it should be called again before waiting.
  bool Work() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeSubmissions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for an event, after a step in which nothing advanced, unless `done` returns true.
  // Releases the mutex meanwhile.
  void SleepUntilEvent(MutexLock& lock, Sleeper sleeper, const std::function<bool()>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes the threads and watchers that may be waiting for the operations that have ended.
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether operations must advance even if no thread waits for them.
  bool NeedsThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes the engine's thread, unless a thread that waits does its work.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called when this thread ceases to advance operations: wakes another one that continues.
  // `has_more`: operations may be able to advance at once, without an event.
  void HandOver(bool has_more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails the groups whose peers have gone or are too late.
  void CheckAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls CheckAll from time to time between two steps, because a loop that always has work must
  // see failures too.
  void CheckNowAndThen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The function of the engine's thread: advances operations until none needs the thread, or until
  // a caller waits in WaitUntil and advances them instead. Returns whether there was work, or a
  // caller does it.
  bool AdvanceUnlessCallerWaits();

  EventSource* const events_;
  const Options options_;

  // The state that Submit uses while another thread advances operations.
  Mutex submit_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::vector<Submission> submissions_ ABSL_GUARDED_BY(submit_mutex_);
  std::atomic<bool> has_submissions_ = false;
  std::atomic<bool> is_working_ = false;  // that thread reads has_submissions_ afterwards

  Mutex mutex_;
  std::vector<QueuedGroup*> groups_ ABSL_GUARDED_BY(mutex_);
  std::vector<Submission> taken_ ABSL_GUARDED_BY(mutex_);
  bool completed_ ABSL_GUARDED_BY(mutex_) = false;  // something, since Notify
  Sleeper sleeper_ ABSL_GUARDED_BY(mutex_) = Sleeper::kNone;
  int waiters_ ABSL_GUARDED_BY(mutex_) = 0;  // on changed_
  ConditionVariable changed_;
  std::vector<CompletionWatcher*> watchers_ ABSL_GUARDED_BY(mutex_);
  Time last_ ABSL_GUARDED_BY(mutex_);
  Time checked_ ABSL_GUARDED_BY(mutex_);
  int moves_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::duration excluded_ ABSL_GUARDED_BY(mutex_){};

  std::atomic<int> callers_ = 0;  // threads in WaitUntil, including those that wait for the mutex

  std::unique_ptr<ProgressThread> thread_;  // null if the engine has none
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_PROGRESS_ENGINE_H_
