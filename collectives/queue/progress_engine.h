// Moves the operations of several groups on: while a thread waits for one of them, on that thread,
// and otherwise on a thread of the engine's own.
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

// How a rank learns that a peer has done something: a backend supplies it.
class EventSource {
 public:
  virtual ~EventSource() = default;

  // Takes in what peers have done, with the engine's mutex held. Returns whether there was
  // anything.
  virtual bool Take() { return false; }

  // Whether there is something to do beside the groups' operations, with the mutex held.
  virtual bool NeedsThread() const { return false; }

  // One thread at a time calls Arm, then polls once more, calls Sleep if there was nothing to do,
  // and calls Disarm in either case. An event after Arm ends a later Sleep at once. If
  // `in_background`, the sleeper is the engine's own thread beside computation: it should be woken
  // rarely rather than early.
  virtual void Arm(bool /*in_background*/) {}
  virtual void Sleep(std::chrono::nanoseconds at_most) = 0;
  virtual void Disarm() {}

  // Ends a Sleep. Any thread may call it.
  virtual void Wake() = 0;
};

// The event source of operations that end by themselves: only Wake ends a Sleep.
class NoEvents : public EventSource {
 public:
  void Arm(bool in_background) override;
  void Sleep(std::chrono::nanoseconds at_most) override;
  void Wake() override;

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_woken_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread safety: functions may be called from any thread, if they do not say that they need the
// mutex.
class ProgressEngine : public CompletionSource {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    bool spins = true;       // before it sleeps
    bool has_thread = true;  // false: operations move on only while a thread waits
  };

  // `events` outlives the engine.
  ProgressEngine(EventSource* events, Options options);
  ~ProgressEngine() override { Stop(); }
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Guards the state of all groups of the engine, and of their backend.
  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // States to the compiler that the caller holds it.
  void AssertMutexHeld() ABSL_ASSERT_EXCLUSIVE_LOCK(mutex_) {}

  // Ends the engine's thread. Operations then move on only while a thread waits.
  void Stop();

  void Add(QueuedGroup* group);
  // The group's operations that were submitted are taken in before, and not after.
  void Remove(QueuedGroup* group);

  // An operation that was issued, or an error that ends its group.
  struct Submission {
    QueuedGroup* group = nullptr;
    int channel = 0;
    Request request;
    absl::Status error;
  };
  // Hands an operation over; returns its number on its channel, of which *issued is the next one.
  // Never waits for work: if another thread is moving operations on, that thread takes it in.
  uint64_t Submit(Submission submission, uint64_t* issued);

  // Returns when `done`, which looks at atomics only, holds. Moves operations on meanwhile.
  void WaitUntil(const std::function<bool()>& done) override;
  // Moves operations on, if no other thread does.
  void Poll();
  void Watch(CompletionWatcher* watcher) override;
  void Unwatch(CompletionWatcher* watcher) override;

  // An operation has ended, or all of a group.
  void Completed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { completed_ = true; }

  // Calls `run` without the mutex, from a step in which operations move on.
  void RunUnlocked(const std::function<void()>& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns the time against which time-outs are measured. Time in which nothing of the engine ran,
  // because the process was stopped or no thread waited, is left out: after a job was suspended and
  // continued, its ranks have their full time-out again.
  Time Now() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  enum class Sleeper : uint8_t { kNone, kCaller, kThread };

  // Moves all operations on by a step. Returns whether anything moved.
  bool Work() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeSubmissions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for an event, after a step in which nothing moved.
  void Sleep(MutexLock& lock, Sleeper sleeper, const std::function<bool()>& done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes those that may wait for what has ended.
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NeedsThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks for failures between two moves: a loop in which something always moves must notice them
  // too.
  void CheckNowAndThen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs on the engine's thread. Returns whether there was something to do, or a caller does it.
  bool AdvanceUnlessCalled();

  EventSource* const events_;
  const Options options_;

  // Only these two are held or read by Submit where another thread works.
  Mutex submit_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::vector<Submission> submissions_ ABSL_GUARDED_BY(submit_mutex_);
  std::atomic<bool> has_submissions_ = false;
  std::atomic<bool> is_working_ = false;  // and looks at has_submissions_ afterwards

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

  std::atomic<int> callers_ = 0;  // in WaitUntil, also before they have the mutex

  std::unique_ptr<ProgressThread> thread_;  // null: there is none
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_PROGRESS_ENGINE_H_
