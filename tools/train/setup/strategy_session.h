// The strategy of a run: its plugin, which makes the Plan and estimates its cost.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_STRATEGY_SESSION_H_
#define TESSERA_TOOLS_TRAIN_SETUP_STRATEGY_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/cost/prices/measured_prices.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/strategy.pb.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/ranks/ranks.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/priced_cluster.h"

namespace tessera {

// The strategy of a run of several ranks that names neither a strategy nor a Plan.
std::string DefaultStrategy();

// Loads the plugin of a strategy. `notes` receives a note of where it is from, unless it comes with
// the program; it may be null.
absl::StatusOr<Plugin> LoadStrategy(const std::string& strategy, std::vector<std::string>* notes);

// The inputs for planning a run by a strategy.
struct StrategyRun {
  RunConfig config;
  Plan settings;  // PlanOfConfig
  std::shared_ptr<const std::vector<Graph>> graphs;
  const KernelCatalogue* catalogue = nullptr;
  int ranks = 1;
  // Records the run's Graphs for another configuration.
  std::function<absl::StatusOr<std::vector<Graph>>(const RunConfig& config)> record;
  PricedCluster priced;
  std::shared_ptr<const MeasuredPrices> prices;  // ConfiguredRun::prices
  int64_t memory_limit = 0;                      // bytes of a rank; 0: none
  // The settings that the strategy may decide. `config` and `settings` have their defaults.
  std::vector<strategy::PlanRequest::Setting> open = {};
};

// A loaded plugin with the run that it plans and estimates. One process of a run has one: rank 0.
// Not thread-safe.
class StrategySession {
 public:
  // Reads --strategy_options. The catalogue and the objects that `run.record` refers to must
  // outlive the result.
  static absl::StatusOr<StrategySession> Open(Plugin plugin, const CommandLine& line,
                                              const StrategyRun& run);

  const Plugin& plugin() const { return plugin_; }
  // Returns the Plan that the plugin makes.
  absl::StatusOr<StrategyPlan> MakePlan() const;
  // Returns the plugin's estimate of the cost of a training step of the compiled run. It is an
  // error if the estimated memory peak differs from the planned one.
  absl::StatusOr<StepCost> Estimate(const CompiledRun& compiled) const;
  // Asks the plugin whether it would still make the Plan of the compiled run (CheckWith).
  absl::StatusOr<std::string> Check(const CompiledRun& compiled) const;

 private:
  StrategySession(Plugin plugin, strategy::PlanRequest request,
                  std::shared_ptr<const PlanningContext> context, PluginCallOptions options)
      : plugin_(std::move(plugin)),
        request_(std::move(request)),
        context_(std::move(context)),
        options_(std::move(options)) {}

  // Returns the options of a call that shows its progress.
  PluginCallOptions CallOptions() const;

  Plugin plugin_;
  strategy::PlanRequest request_;
  std::shared_ptr<const PlanningContext> context_;
  PluginCallOptions options_;
};

// Returns the passes of plugins that a Plan for these Graphs may list. `strategy` is the plugin
// that made the Plan, or null; other plugins are found by the names in the Plan. When one of the
// latter is loaded, `notes` receives a note of where it is from, unless it comes with the program;
// it must outlive the result.
std::unique_ptr<PluginPasses> PassesOfPlugins(const CommandLine& line, const Plugin* strategy,
                                              std::shared_ptr<const std::vector<Graph>> graphs,
                                              const KernelCatalogue& catalogue, int ranks,
                                              std::vector<std::string>* notes);

// Returns an error if there is no plugin of that name, or if it does not have an option of
// --strategy_options or not the value. Collective: rank 0 loads the plugin. Errors are agreed ones.
absl::Status CheckStrategyFlags(const std::string& strategy, const CommandLine& line, Ranks& ranks);

// Returns the text that --help prints of a strategy: its summary and options.
absl::StatusOr<std::string> StrategyHelp(const std::string& strategy);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_STRATEGY_SESSION_H_
