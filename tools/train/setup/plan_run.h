// Records the Graphs of a configured run and makes its Plan, which prepare.h compiles.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_PLAN_RUN_H_
#define TESSERA_TOOLS_TRAIN_SETUP_PLAN_RUN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"
#include "core/proto/strategy.pb.h"
#include "core/train/config/run_config.pb.h"
#include "strategies/host/plugin.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {

// A run whose Graphs are recorded, with its Plan.
struct PlannedRun {
  std::shared_ptr<const std::vector<Graph>> graphs;
  // On rank 0, which sends the Plan to the others when it has completed it: the open Plan, the
  // strategy that made it, and its reasons. There is no strategy for a Plan of --plan, of the
  // checkpoint, or of one rank.
  Plan plan;
  std::optional<StrategySession> strategy;
  strategy::Explanation explanation;
  std::string plugin;                 // the name of the strategy's plugin; "" without a strategy
  std::optional<Plugin> pass_plugin;  // that plugin, if the Plan lists passes of plugins
};

// Records the Graphs and makes the Plan, on rank 0: that of --plan, of a strategy, of the
// checkpoint, or the default one. If the batch is open, sets it in the configuration of the run.
// `line` and `configured` must outlive the result. `notes` receives notes for the user, also if it
// fails. Collective; errors are agreed ones.
absl::StatusOr<PlannedRun> PlanRun(const CommandLine& line, ConfiguredRun& configured,
                                   std::vector<std::string>* notes);

// Does the same for another configuration, on this rank alone.
absl::StatusOr<PlannedRun> PlanAlone(const CommandLine& line, const ConfiguredRun& configured,
                                     const RunConfig& config);

// Asks the strategy of a configured run, which must have one, whether it would still make the Plan
// of `compiled`, on this rank alone. Returns "" if so, and otherwise one line that says what has
// changed (CheckWith). `notes` receives notes for the user.
absl::StatusOr<std::string> CheckPlanOfRun(const CommandLine& line, const ConfiguredRun& configured,
                                           const CompiledRun& compiled,
                                           std::vector<std::string>* notes);

// Returns an error of a Plan that a plugin has made with the plugin's name.
absl::Status NamingPlugin(const std::string& plugin, const absl::Status& status);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_PLAN_RUN_H_
