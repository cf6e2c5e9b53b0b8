#include "collectives/queue/progress_thread.h"

#include <chrono>
#include <utility>

namespace tessera::comm {
namespace {

constexpr auto kLookEvery = std::chrono::microseconds(500);
constexpr auto kStayUp = std::chrono::milliseconds(20);

}  // namespace

ProgressThread::ProgressThread(std::function<bool()> advance) : advance_(std::move(advance)) {
  thread_ = std::thread([this] { Run(); });
}

void ProgressThread::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wakes_.notify_all();
}

void ProgressThread::Join() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::Wake(bool at_once) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_wanted_ || (looks_ && !at_once)) return;
    is_wanted_ = true;
  }
  wakes_.notify_one();
}

void ProgressThread::Run() {
  using Clock = std::chrono::steady_clock;
  const auto is_called = [this] { return stop_ || is_wanted_; };
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    wakes_.wait(lock, is_called);
    Clock::time_point busy = Clock::now();
    for (looks_ = true; looks_ && !stop_;) {
      // It polls once more after `looks_` is false, because Wake may have counted on it.
      looks_ = Clock::now() - busy < kStayUp;
      is_wanted_ = false;
      lock.unlock();
      const bool was_busy = advance_();
      lock.lock();
      if (was_busy) {
        busy = Clock::now();
        looks_ = true;
      }
      if (looks_) wakes_.wait_for(lock, kLookEvery, is_called);
    }
  }
}

}  // namespace tessera::comm
