#include "strategies/host/plan_with.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/status_macros.h"
#include "core/sync/mutex.h"
#include "core/text/human_units.h"
#include "strategies/host/plugin_call.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// How often the caller looks whether the user wants to end.
constexpr std::chrono::milliseconds kPoll{50};

// A function of a plugin that runs on a thread of its own, and keeps all that it uses.
struct Running {
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

// Returns a Plan that a plugin has made. Kernels are the host's choice.
absl::StatusOr<Plan> ReadPlan(const Plugin& plugin, const std::string& bytes) {
  Plan plan;
  if (!plan.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("strategy ", plugin.name(), ": returned ",
                                                   bytes.size(), " bytes that are no Plan"));
  }
  plan.clear_kernels();
  const absl::Status fits = CheckPlanForm(plan);
  if (fits.ok()) return plan;
  return absl::Status(fits.code(), absl::StrCat("strategy ", plugin.name(),
                                                ": its Plan cannot be run: ", fits.message()));
}

// The result of a plugin that has not ended in time: the best Plan that it has reported.
absl::StatusOr<StrategyPlan> BestSoFar(const Plugin& plugin, PluginCall& call,
                                       const PluginCallOptions& options) {
  if (options.stop && options.stop()) {
    return absl::CancelledError(
        absl::StrCat("strategy ", plugin.name(), ": stopped while it planned"));
  }
  const std::string took =
      absl::StrCat("strategy ", plugin.name(), ": planning took longer than ",
                   FormatSeconds(std::chrono::duration<double>(options.limit).count()));
  std::optional<Plan> best = call.best();
  if (!best.has_value()) {
    return absl::DeadlineExceededError(
        absl::StrCat(took, ", and it has reported no Plan so far; allow it more time"));
  }
  best->clear_kernels();
  return StrategyPlan{*std::move(best), {absl::StrCat(took, ": its best Plan so far is used")}};
}

}  // namespace

absl::StatusOr<StrategyPlan> PlanWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options) {
  const auto running = std::make_shared<Running>(std::move(context), options);
  std::thread thread([running, plugin, bytes = request.SerializeAsString()] {
    absl::StatusOr<std::string> result = running->call.Run(plugin, plugin.table().plan, bytes);
    MutexLock lock(&running->mutex);
    running->result = std::move(result);
    running->ended = true;
    running->finished.NotifyAll();
  });
  const Clock::time_point end = Clock::now() + options.limit;
  bool ended = false;
  while (!ended && Clock::now() < end && !running->call.cancelled()) {
    ended = running->WaitUntil(std::min(end, Clock::now() + kPoll));
  }
  if (!ended) {
    running->call.Cancel();
    ended = running->WaitUntil(Clock::now() + options.grace);
  }
  running->call.Close();
  if (!ended) {
    thread.detach();
    return BestSoFar(plugin, running->call, options);
  }
  thread.join();
  MutexLock lock(&running->mutex);
  if (absl::IsCancelled(running->result.status())) return BestSoFar(plugin, running->call, options);
  RETURN_IF_ERROR(running->result.status());
  ASSIGN_OR_RETURN(Plan plan, ReadPlan(plugin, *running->result));
  return StrategyPlan{std::move(plan), {}};
}

}  // namespace tessera
