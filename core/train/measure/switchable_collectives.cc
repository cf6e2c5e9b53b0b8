#include "core/train/measure/switchable_collectives.h"

#include <chrono>

#include "core/status/status_macros.h"

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

// Returns whether an operation can end before the next one begins. A send or receive may not: each
// rank of a ring does both, in some order, and neither can end before the other has begun.
bool EndsByItself(CollectiveOperation operation) {
  return operation != CollectiveOperation::kSend && operation != CollectiveOperation::kReceive;
}

}  // namespace

StartedCollective SwitchableCollectives::Start(const CollectiveRequest& request, int group,
                                               const void* input, void* output,
                                               const FlatGroup::Range& unread) {
  const Stopwatch stopwatch(excluded_ ? &excluded_nanoseconds_ : nullptr);
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

absl::Status SwitchableCollectives::RunRecorded() {
  for (const Call& call : recorded_) {
    RETURN_IF_ERROR(actual_.Wait(
        actual_.Start(*call.request, call.group, call.input, call.output, call.unread)));
  }
  return absl::OkStatus();
}

}  // namespace tessera
