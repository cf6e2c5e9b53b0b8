// The Plan of a run that a strategy plugin makes.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_RUN_STRATEGY_H_
#define TESSERA_TOOLS_TRAIN_SETUP_RUN_STRATEGY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/plan.pb.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"

namespace tessera {

// The strategy of a run of several ranks that names neither a strategy nor a Plan.
std::string DefaultStrategy();

// The inputs for planning a run by a strategy.
struct StrategyRun {
  const RunConfig* config = nullptr;
  const std::vector<Graph>* graphs = nullptr;
  const KernelCatalogue* catalogue = nullptr;
  int ranks = 1;
  // Records the run's Graphs for another configuration.
  std::function<absl::StatusOr<std::vector<Graph>>(const RunConfig& config)> record;
  Cluster cluster;
  GroupSite job;  // the host of each rank
};

// An open Plan, and the name of the plugin that made it.
struct PlanByStrategy {
  std::string strategy;
  Plan plan;
};

// Returns the Plan that the plugin of `strategy` makes with --strategy_options. Collective: rank 0
// plans, and the others receive its Plan. Errors are agreed ones. Notes are rank 0's; one of them
// says from where the plugin was loaded, unless it comes with the program.
absl::StatusOr<PlanByStrategy> PlanOfStrategy(const std::string& strategy, const CommandLine& line,
                                              const StrategyRun& run, Ranks& ranks,
                                              std::vector<std::string>* notes);

// Returns the plugin's estimate of the cost of a training step of the compiled run. It is an error
// if the estimated memory peak differs from the planned one. Collective, as above.
absl::StatusOr<StepCost> EstimateOfStrategy(const std::string& strategy, const CommandLine& line,
                                            const StrategyRun& run, const CompiledRun& compiled,
                                            Ranks& ranks);

// Returns the passes of plugins if the Plan lists any, else null: those of the plugin that
// --strategy names, and of plugins that are found by the names in the Plan. When one of the latter
// is loaded, `notes` receives a note of where it is from, unless it comes with the program; it may
// be null, and must outlive the result.
absl::StatusOr<std::unique_ptr<PluginPasses>> PassesOfPlugins(const Plan& plan,
                                                              const CommandLine& line,
                                                              const StrategyRun& run,
                                                              std::vector<std::string>* notes);

// Returns an error if there is no plugin of that name, or if it does not have an option of
// --strategy_options or not the value. Collective: rank 0 loads the plugin. Errors are agreed ones.
absl::Status CheckStrategyFlags(const std::string& strategy, const CommandLine& line, Ranks& ranks);

// Returns the text that --help prints of a strategy: its summary and options.
absl::StatusOr<std::string> StrategyHelp(const std::string& strategy);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_RUN_STRATEGY_H_
