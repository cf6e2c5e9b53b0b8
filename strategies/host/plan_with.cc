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

// Runs a function of the plugin on a thread of its own. Returns its result, or Cancelled if it has
// not ended when its time was over, or the user wants to end.
absl::StatusOr<std::string> RunLimited(const Plugin& plugin, TesseraStrategyFunction function,
                                       const std::string& request, const PluginCallOptions& options,
                                       const std::shared_ptr<Running>& running) {
  std::thread thread([running, plugin, function, request] {
    absl::StatusOr<std::string> result = running->call.Run(plugin, function, request);
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
    return absl::CancelledError("");
  }
  thread.join();
  MutexLock lock(&running->mutex);
  return std::move(running->result);
}

}  // namespace

absl::StatusOr<StrategyPlan> PlanWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options) {
  const auto running = std::make_shared<Running>(std::move(context), options);
  const absl::StatusOr<std::string> result =
      RunLimited(plugin, plugin.table().plan, request.SerializeAsString(), options, running);
  if (absl::IsCancelled(result.status()) && running->call.cancelled()) {
    return BestSoFar(plugin, running->call, options);
  }
  RETURN_IF_ERROR(result.status());
  ASSIGN_OR_RETURN(Plan plan, ReadPlan(plugin, *result));
  return StrategyPlan{std::move(plan), {}};
}

absl::StatusOr<StepCost> EstimateWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const Plan& plan,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options) {
  if (plugin.table().estimate == nullptr) {
    strategy::LowerPlans plans;
    *plans.add_plans() = plan;
    const strategy::LoweredPlans lowered = context->Lower(plans);
    if (lowered.plans(0).error().empty()) return lowered.plans(0).cost();
    return absl::InvalidArgumentError(lowered.plans(0).error());
  }
  strategy::EstimateRequest message;
  *message.mutable_request() = request;
  *message.mutable_plan() = plan;
  const auto running = std::make_shared<Running>(std::move(context), options);
  const absl::StatusOr<std::string> result =
      RunLimited(plugin, plugin.table().estimate, message.SerializeAsString(), options, running);
  if (absl::IsCancelled(result.status()) && running->call.cancelled()) {
    return absl::DeadlineExceededError(
        absl::StrCat("strategy ", plugin.name(), ": its estimate took too long"));
  }
  RETURN_IF_ERROR(result.status());
  StepCost cost;
  if (cost.ParseFromString(*result)) return cost;
  return absl::InvalidArgumentError(absl::StrCat("strategy ", plugin.name(), ": returned ",
                                                 result->size(), " bytes that are no estimate"));
}

}  // namespace tessera
