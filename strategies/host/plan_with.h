// Calls a strategy plugin for a Plan and for estimates.
#ifndef TESSERA_STRATEGIES_HOST_PLAN_WITH_H_
#define TESSERA_STRATEGIES_HOST_PLAN_WITH_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/strategy.pb.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// Limits of a call of a plugin, and callbacks for it, which the caller's thread calls while it
// waits.
struct PluginCallOptions {
  // After this time the plugin is asked to stop. If it does not stop within `grace`, its process is
  // ended.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  // Returns whether the user wants to end; may be null.
  std::function<bool()> stop;
  // Shows progress: a share of the work (negative if unknown) and a line of text; may be null. The
  // newest one is shown when `between_progress` has passed since the call began, or since the last
  // one that was shown, unless it is the same.
  std::function<void(double fraction, const std::string& line)> progress;
  std::chrono::milliseconds between_progress{0};
  // Shows a line that the plugin logs, "strategy NAME: ...". By default it is written to stderr.
  std::function<void(const std::string& line)> log;
  // Is called in the plugin's process. May be null.
  RecordGraphs record;
};

struct StrategyPlan {
  Plan plan;                       // open, as the plugin made it; CheckPlanForm accepts it
  std::vector<std::string> notes;  // for the user
  // The plugin's reasons; empty if it gave none. Its texts are any bytes: OneLine makes them
  // printable.
  strategy::Explanation explanation = {};
};

// Calls the plugin's `make_plan`. Errors, in one line, name the plugin. Causes: it refused the
// request, it threw, it ended its process, it returned no Plan, an unusable one or one that
// contradicts the request's settings, or it was stopped and had reported no Plan so far. If it was
// stopped, because it took too long or the user wants to end, a note says that its best Plan so far
// is used.
//
// Every function of a plugin runs in a process of its own, on a copy of this one's memory as it is
// at the call (limited_call.h), so a fault in it ends no run.
absl::StatusOr<StrategyPlan> PlanWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const std::shared_ptr<const PlanningContext>& context,
                                      const PluginCallOptions& options);

// Returns the Plan that a plugin's `make_plan` returned as `bytes` for the request. Errors are as
// for PlanWith.
absl::StatusOr<Plan> ReadPlanOf(const Plugin& plugin, const strategy::PlanRequest& request,
                                const std::string& bytes);

// Returns the estimated cost of a training step of the run compiled from the plugin's Plan: the
// plugin's estimate, or the host's if it has none. Errors are as for PlanWith.
absl::StatusOr<StepCost> EstimateWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const CompiledRun& compiled,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options);

// Asks the plugin that made a Plan, which was compiled for this request, whether it would still
// make it. Returns "" if so, and otherwise one line that says what has changed. The host itself
// compares the Plan's peak with the memory limit. Errors are as for PlanWith.
absl::StatusOr<std::string> CheckWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const CompiledRun& compiled,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLAN_WITH_H_
