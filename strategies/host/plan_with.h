// Asks a strategy plugin for a Plan.
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

// Things that a call of a plugin may do beside computing.
struct PluginCallOptions {
  // After so long the plugin is asked to stop, and is left behind if it does not stop in `grace`:
  // its thread cannot be ended, but can no longer ask for anything.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  // Whether the user wants to end; may be null. Called by any thread.
  std::function<bool()> stop;
  // Shows progress: a share of the work, negative if not known, and a line; may be null.
  std::function<void(double fraction, const std::string& line)> progress;
  // Records the Graphs at another batch size (0: that of the run); may be null.
  std::function<absl::StatusOr<std::vector<Graph>>(int64_t batch, int64_t sequence)> record;
};

struct StrategyPlan {
  Plan plan;                       // open, as the plugin made it; CheckPlanForm accepts it
  std::vector<std::string> notes;  // for the user
};

// Calls the plugin's `plan` on a thread of its own. Errors, in one line, name the plugin: what it
// says of the request, that it threw, returned no Plan, one that no run can follow or one of other
// settings than those in the request, or took too long and had reported no Plan so far.
absl::StatusOr<StrategyPlan> PlanWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options);

// The plugin's estimate of a training step of a run that its Plan was compiled to: its own, or the
// host's if it has none. Errors are as for PlanWith.
absl::StatusOr<StepCost> EstimateWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const CompiledRun& compiled,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLAN_WITH_H_
