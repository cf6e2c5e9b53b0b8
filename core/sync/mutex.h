// std::mutex and std::condition_variable with the thread annotations that clang's -Wthread-safety
// checks (ABSL_GUARDED_BY and its kin, of absl/base/thread_annotations.h). libstdc++'s own types
// have none, and ThreadSanitizer does not see what an uninstrumented absl::Mutex orders.
#ifndef TESSERA_CORE_SYNC_MUTEX_H_
#define TESSERA_CORE_SYNC_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tessera {

// A mutual exclusion lock, to be held by way of a MutexLock.
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a Mutex while it exists, apart from what lies between Unlock and Lock.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex->mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

// Threads wait for a condition that a Mutex guards. A wait releases the lock meanwhile and holds it
// again when it returns, possibly with no notification: callers test their condition in a loop.
class ConditionVariable {
 public:
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  // Returns false if the time passed without a notification.
  bool WaitFor(MutexLock& lock, std::chrono::nanoseconds duration) {
    return condition_.wait_for(lock.lock_, duration) == std::cv_status::no_timeout;
  }
  bool WaitUntil(MutexLock& lock, std::chrono::steady_clock::time_point deadline) {
    return condition_.wait_until(lock.lock_, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_SYNC_MUTEX_H_
