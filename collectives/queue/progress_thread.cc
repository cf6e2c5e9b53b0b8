#include "collectives/queue/progress_thread.h"

#include <chrono>
#include <utility>

#include "core/posix/time_slice.h"

namespace tessera::comm {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(2);
constexpr auto kStayUp = std::chrono::milliseconds(20);

constexpr auto kSlice = std::chrono::microseconds(100);  // the shortest that Linux accepts

}  // namespace

ProgressThread::ProgressThread(std::function<bool()> advance) : advance_(std::move(advance)) {
  thread_ = std::thread([this] { Run(); });
}

void ProgressThread::Stop() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  wakes_.NotifyAll();
}

void ProgressThread::Join() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::Wake(bool at_once) {
  {
    const MutexLock lock(&mutex_);
    if (is_wanted_ || (looks_ && !at_once)) return;
    is_wanted_ = true;
  }
  wakes_.NotifyOne();
}

void ProgressThread::Run() {
  SetTimeSlice(kSlice);
  using Clock = std::chrono::steady_clock;
  MutexLock lock(&mutex_);
  while (!stop_) {
    while (!stop_ && !is_wanted_) wakes_.Wait(lock);
    Clock::time_point busy = Clock::now();
    for (looks_ = true; looks_ && !stop_;) {
      // Polls once more after `looks_` became false, because Wake may have relied on the old value.
      looks_ = Clock::now() - busy < kStayUp;
      is_wanted_ = false;
      lock.Unlock();
      const bool was_busy = advance_();
      lock.Lock();
      if (was_busy) {
        busy = Clock::now();
        looks_ = true;
      }
      // After a spurious wake-up it polls too early, which is harmless.
      if (looks_ && !stop_ && !is_wanted_) wakes_.WaitFor(lock, kLookEvery);
    }
  }
}

}  // namespace tessera::comm
