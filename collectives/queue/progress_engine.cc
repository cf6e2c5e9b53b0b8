#include "collectives/queue/progress_engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "collectives/queue/queued_group.h"
#include "collectives/queue/spin.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Sleepers wake at this interval to check whether their peers are alive and in time.
constexpr auto kSleep = std::chrono::milliseconds(100);
constexpr auto kCheckEvery = std::chrono::milliseconds(20);
constexpr int kMovesPerClockRead = 16;

// If the clock was not read for this long, the process was stopped or no thread waited.
constexpr auto kStopped = std::chrono::milliseconds(500);

}  // namespace

void NoEvents::PrepareWait(bool /*in_background*/) {
  const MutexLock lock(&mutex_);
  is_woken_ = false;
}

void NoEvents::CommitWait(std::chrono::nanoseconds at_most) {
  const auto end = Clock::now() + at_most;
  MutexLock lock(&mutex_);
  while (!is_woken_ && changed_.WaitUntil(lock, end)) {
  }
}

void NoEvents::Wake() {
  const MutexLock lock(&mutex_);
  is_woken_ = true;
  changed_.NotifyAll();
}

ProgressEngine::ProgressEngine(EventSource* events, Options options)
    : events_(events), options_(options), last_(Clock::now()), checked_(last_) {
  if (options.has_thread) {
    thread_ = std::make_unique<ProgressThread>([this] { return AdvanceUnlessCallerWaits(); });
  }
}

void ProgressEngine::Stop() {
  if (thread_ == nullptr) return;
  thread_->Stop();
  events_->Wake();
  thread_->Join();
}

void ProgressEngine::Add(QueuedGroup* group) {
  const MutexLock lock(&mutex_);
  groups_.push_back(group);
}

void ProgressEngine::Remove(QueuedGroup* group) {
  const MutexLock lock(&mutex_);
  TakeSubmissions();
  groups_.erase(std::find(groups_.begin(), groups_.end(), group));
}

ProgressEngine::Time ProgressEngine::Now() {
  const Time now = Clock::now();
  if (now - last_ > kStopped) excluded_ += now - last_;
  last_ = now;
  return now - excluded_;
}

uint64_t ProgressEngine::Submit(Submission submission, uint64_t* issued) {
  QueuedGroup* const group = submission.group;
  const bool is_error = !submission.error.ok();
  uint64_t number = 0;
  {
    const MutexLock lock(&submit_mutex_);
    number = is_error ? *issued : (*issued)++;
    submissions_.push_back(std::move(submission));
  }
  has_submissions_.store(true);
  // The mutex is unfair: while another thread works, waiting for it could take long.
  while (!mutex_.TryLock()) {
    if (is_working_.load()) return number;
    std::this_thread::yield();
  }
  TakeSubmissions();
  group->AssertMutexHeld();
  HandOver(group->AdvanceSmall());
  mutex_.Unlock();
  return number;
}

void ProgressEngine::RunUnlocked(const std::function<void()>& run) {
  is_working_.store(false);
  // Takes the operations that other threads submitted and left to this one, because `run` may wait
  // for long.
  TakeSubmissions();
  mutex_.Unlock();
  run();
  mutex_.Lock();
  is_working_.store(true);
}

void ProgressEngine::TakeSubmissions() {
  if (!has_submissions_.exchange(false)) return;
  {
    const MutexLock lock(&submit_mutex_);
    taken_.swap(submissions_);
  }
  for (Submission& submission : taken_) {
    QueuedGroup* const group = submission.group;
    group->AssertMutexHeld();
    group->TakeSubmission(std::move(submission));
  }
  taken_.clear();
}

bool ProgressEngine::Work() {
  is_working_.store(true);
  TakeSubmissions();
  bool moved = events_->TakeEvents();
  for (QueuedGroup* group : groups_) {
    group->AssertMutexHeld();
    moved = group->Advance() || moved;
  }
  is_working_.store(false);
  // Other threads leave the operations that they submit meanwhile to this one.
  return has_submissions_.load() || moved;
}

void ProgressEngine::Notify() {
  completed_ = false;
  if (waiters_ > 0) changed_.NotifyAll();
  if (sleeper_ == Sleeper::kCaller) events_->Wake();
  for (CompletionWatcher* watcher : watchers_) watcher->Notify();
}

bool ProgressEngine::NeedsThread() const {
  const bool is_watched = !watchers_.empty();
  return events_->NeedsThread() ||
         std::any_of(groups_.begin(), groups_.end(), [is_watched](QueuedGroup* group) {
           group->AssertMutexHeld();
           return is_watched ? group->HasOperations() : group->NeedsThread();
         });
}

void ProgressEngine::WakeThread() {
  if (callers_ > 0 || thread_ == nullptr) return;
  const bool at_once =
      !watchers_.empty() || std::any_of(groups_.begin(), groups_.end(), [](QueuedGroup* group) {
        group->AssertMutexHeld();
        return group->HasLargeOperation();
      });
  thread_->Wake(at_once);
}

void ProgressEngine::HandOver(bool has_more) {
  if (completed_) Notify();
  // Threads that wait for the sleeper need one, or have work.
  if (callers_ > 0 && (has_more || sleeper_ == Sleeper::kNone)) changed_.NotifyAll();
  const bool needs_thread = NeedsThread();
  // The sleeper waits for peers, which may be waiting for what this rank can do already.
  if (has_more &&
      (sleeper_ == Sleeper::kCaller || (sleeper_ == Sleeper::kThread && needs_thread))) {
    events_->Wake();
  }
  if (needs_thread) WakeThread();
}

void ProgressEngine::CheckAll() {
  // A group that fails may wait for a peer, and other threads must not wait for that.
  is_working_.store(true);
  const Time now = Now();
  checked_ = now;
  for (QueuedGroup* group : groups_) {
    group->AssertMutexHeld();
    group->Check(now);
  }
  is_working_.store(false);
}

void ProgressEngine::CheckNowAndThen() {
  if (++moves_ % kMovesPerClockRead == 0 && Now() - checked_ > kCheckEvery) CheckAll();
}

void ProgressEngine::SleepUntilEvent(MutexLock& lock, Sleeper sleeper,
                                     const std::function<bool()>& done) {
  if (sleeper_ != Sleeper::kNone) {
    // Only one thread sleeps on the event source; it notifies the others.
    ++waiters_;
    changed_.WaitFor(lock, kSleep);
    --waiters_;
    return;
  }
  sleeper_ = sleeper;
  events_->PrepareWait(sleeper == Sleeper::kThread);
  bool moved = Work();
  if (!moved) CheckAll();
  moved = moved || has_submissions_.load() || completed_ || done();
  if (moved) {
    events_->CancelWait();
  } else {
    mutex_.Unlock();
    events_->CommitWait(kSleep);
    mutex_.Lock();
  }
  sleeper_ = Sleeper::kNone;
}

void ProgressEngine::WaitUntil(const std::function<bool()>& done) {
  if (done()) return;
  ++callers_;
  MutexLock lock(&mutex_);
  bool moved = false;
  for (Spin spin;;) {
    moved = Work();
    if (completed_) Notify();
    if (done()) break;
    if (moved) {
      spin.Restart();
      CheckNowAndThen();
      lock.Unlock();
    } else {
      lock.Unlock();
      if (!options_.spins || spin.IsOver()) {
        lock.Lock();
        SleepUntilEvent(lock, Sleeper::kCaller, done);
        if (completed_) Notify();
        lock.Unlock();
      }
    }
    lock.Lock();
  }
  // Takes the operations that other threads left to this one.
  while (has_submissions_.load()) moved = Work();
  --callers_;
  HandOver(moved);
}

void ProgressEngine::Poll() {
  if (is_working_.load()) return;
  const MutexLock lock(&mutex_);
  bool moved = false;
  do {
    moved = Work();
    CheckAll();
  } while (has_submissions_.load());
  HandOver(moved);
}

void ProgressEngine::Watch(CompletionWatcher* watcher) {
  const MutexLock lock(&mutex_);
  watchers_.push_back(watcher);
  if (NeedsThread()) WakeThread();
}

void ProgressEngine::Unwatch(CompletionWatcher* watcher) {
  const MutexLock lock(&mutex_);
  watchers_.erase(std::find(watchers_.begin(), watchers_.end(), watcher));
}

bool ProgressEngine::AdvanceUnlessCallerWaits() {
  const auto is_over = [this] { return thread_->is_stopped() || callers_ > 0; };
  for (bool was_needed = false;; was_needed = true) {
    // Checked before taking the mutex: otherwise a caller would hand over the mutex, and be woken
    // to take it back, at each piece of an operation.
    if (callers_ > 0) return true;
    MutexLock lock(&mutex_);
    if (thread_->is_stopped() || callers_ > 0 || !NeedsThread()) {
      // Another thread may rely on this one to take its submissions.
      bool moved = false;
      while (has_submissions_.load()) moved = Work();
      HandOver(moved);
      return was_needed || callers_ > 0;
    }
    bool moved = Work();
    if (!moved) {
      SleepUntilEvent(lock, Sleeper::kThread, is_over);
      Work();  // a caller may have relied on this thread to sleep for it
      if (callers_ > 0) changed_.NotifyAll();
    } else {
      CheckNowAndThen();
    }
    if (completed_) Notify();
  }
}

}  // namespace tessera::comm
