#include "strategies/host/limited_call.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "core/sync/mutex.h"
#include "strategies/host/plugin_call.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// How often the caller checks whether the user wants to end.
constexpr std::chrono::milliseconds kPoll{50};

}  // namespace

// A function of a plugin that runs on a thread of its own, and owns everything that it uses.
struct LimitedCall::Running {
  Running(std::shared_ptr<const PlanningContext> context, const PluginCallOptions& options)
      : call(std::move(context), options) {}

  // Returns whether the function has ended at `deadline`.
  bool WaitUntil(Clock::time_point deadline) {
    MutexLock lock(&mutex);
    while (!ended && Clock::now() < deadline) finished.WaitUntil(lock, deadline);
    return ended;
  }

  PluginCall call;
  Mutex mutex;
  ConditionVariable finished;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  absl::StatusOr<std::string> result ABSL_GUARDED_BY(mutex) = absl::UnknownError("");
};

LimitedCall::LimitedCall(std::shared_ptr<const PlanningContext> context,
                         const PluginCallOptions& options)
    : options_(options), running_(std::make_shared<Running>(std::move(context), options)) {}

absl::StatusOr<std::string> LimitedCall::Run(const Plugin& plugin, TesseraStrategyFunction function,
                                             const std::string& request) {
  std::thread thread([running = running_, plugin, function, request] {
    absl::StatusOr<std::string> result = running->call.Run(plugin, function, request);
    MutexLock lock(&running->mutex);
    running->result = std::move(result);
    running->ended = true;
    running->finished.NotifyAll();
  });
  const Clock::time_point end = Clock::now() + options_.limit;
  bool ended = false;
  while (!ended && Clock::now() < end && !running_->call.cancelled()) {
    ended = running_->WaitUntil(std::min(end, Clock::now() + kPoll));
  }
  if (!ended) {
    running_->call.Cancel();
    ended = running_->WaitUntil(Clock::now() + options_.grace);
  }
  running_->call.Close();
  if (!ended) {
    thread.detach();
    return absl::CancelledError("");
  }
  thread.join();
  MutexLock lock(&running_->mutex);
  return std::move(running_->result);
}

bool LimitedCall::WasStopped(const absl::Status& result) const {
  return absl::IsCancelled(result) && running_->call.cancelled();
}

std::optional<Plan> LimitedCall::best() const { return running_->call.best(); }

}  // namespace tessera
