// Calls a strategy plugin for a Plan and for estimates.
#ifndef TESSERA_STRATEGIES_HOST_PLAN_WITH_H_
#define TESSERA_STRATEGIES_HOST_PLAN_WITH_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/proto/strategy.pb.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// Limits of a call of a plugin, and callbacks for it.
struct PluginCallOptions {
  // After this time the plugin is asked to stop. If it does not stop within `grace`, the caller no
  // longer waits for its thread, which cannot be ended but can no longer use the host's services.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  // Returns whether the user wants to end; may be null. Any thread may call it.
  std::function<bool()> stop;
  // Shows progress: a share of the work (negative if unknown) and a line of text; may be null.
  std::function<void(double fraction, const std::string& line)> progress;
  // Records the Graphs at another batch size (0: that of the run); may be null.
  std::function<absl::StatusOr<std::vector<Graph>>(int64_t batch, int64_t sequence)> record;
};

struct StrategyPlan {
  Plan plan;                       // open, as the plugin made it; CheckPlanForm accepts it
  std::vector<std::string> notes;  // for the user
};

// Calls the plugin's `plan` on a thread of its own. Errors, in one line, name the plugin. Causes:
// it refused the request, it threw, it returned no Plan, an unusable one or one that contradicts
// the request's settings, or it took too long and had reported no Plan so far.
absl::StatusOr<StrategyPlan> PlanWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options);

// Returns the estimated cost of a training step of the run compiled from the plugin's Plan: the
// plugin's estimate, or the host's if it has none. Errors are as for PlanWith.
absl::StatusOr<StepCost> EstimateWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const CompiledRun& compiled,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLAN_WITH_H_
