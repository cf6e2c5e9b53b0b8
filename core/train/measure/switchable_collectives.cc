#include "core/train/measure/switchable_collectives.h"

#include <chrono>

namespace tessera {
namespace {

// Adds the time from its construction to its destruction to `*nanoseconds`, unless that is null.
class Stopwatch {
 public:
  explicit Stopwatch(int64_t* nanoseconds) : nanoseconds_(nanoseconds), begin_(Clock::now()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    if (nanoseconds_ != nullptr) {
      *nanoseconds_ += (Clock::now() - begin_) / std::chrono::nanoseconds(1);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t* const nanoseconds_;
  const Clock::time_point begin_;
};

}  // namespace

bool EndsByItself(CollectiveOperation operation) {
  return operation != CollectiveOperation::kSend && operation != CollectiveOperation::kReceive;
}

StartedCollective SwitchableCollectives::Start(const CollectiveRequest& request, int group,
                                               const void* input, void* output,
                                               const FlatGroup::Range& unread) {
  const Stopwatch stopwatch(excluded_ ? &excluded_nanoseconds_ : nullptr);
  if (excluded_) excluded_calls_.push_back(0);
  const Stopwatch of_call(excluded_ ? &excluded_calls_.back() : nullptr);
  if (recording_) recorded_.push_back({&request, group, input, output, unread});
  const StartedCollective started = actual_.Start(request, group, input, output, unread);
  // An error is not lost: the executor waits again, and receives it then.
  if (excluded_ && EndsByItself(request.operation)) actual_.Wait(started).IgnoreError();
  return started;
}

absl::Status SwitchableCollectives::Wait(const StartedCollective& started) {
  const Stopwatch stopwatch(excluded_ ? &excluded_nanoseconds_ : nullptr);
  return actual_.Wait(started);
}

}  // namespace tessera
