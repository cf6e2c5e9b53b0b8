// Requests Plans of a small run from a strategy, as the training tool does.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_STRATEGY_PLANNER_H_
#define TESSERA_STRATEGIES_CONFORMANCE_STRATEGY_PLANNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/plan.pb.h"
#include "core/sync/mutex.h"
#include "strategies/conformance/rank_training.h"
#include "strategies/host/option_values.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// The Plan and the estimate that a strategy makes for a run of some ranks.
struct Planned {
  Plan plan;
  StepCost estimate;
  StepCost of_host;                   // the host's estimate of the same Programs
  std::vector<std::string> programs;  // their fingerprints
};

// The planning contexts of a run for the reference backend, one for each number of ranks: the host
// lowers a Plan once, and keeps what it knows of the Graphs. The run must outlive the object.
// Thread-safe.
class PlanningContexts {
 public:
  using SharedContext = std::shared_ptr<const PlanningContext>;

  explicit PlanningContexts(const TrainingRun* run);

  const KernelCatalogue& catalogue() const { return *backend_; }
  SharedContext For(int ranks) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes a context of its own for another catalogue, which must outlive it.
  SharedContext Make(const KernelCatalogue& catalogue, int ranks) const;

 private:
  const TrainingRun& run_;
  const std::unique_ptr<Backend> backend_;
  const std::shared_ptr<const std::vector<Graph>> graphs_;  // the run's, for all contexts
  mutable Mutex mutex_;
  mutable absl::flat_hash_map<int, SharedContext> contexts_ ABSL_GUARDED_BY(mutex_);  // by ranks
};

// A strategy with values of its options, and the run that it plans for the reference backend. Both
// must outlive the object. Thread-safe.
class StrategyPlanner {
 public:
  StrategyPlanner(const Plugin* plugin, OptionValues options, const TrainingRun* run)
      : StrategyPlanner(plugin, std::move(options), run, std::make_shared<PlanningContexts>(run)) {}
  // Shares the contexts of the run with planners of other options.
  StrategyPlanner(const Plugin* plugin, OptionValues options, const TrainingRun* run,
                  std::shared_ptr<const PlanningContexts> contexts)
      : plugin_(*plugin),
        options_(std::move(options)),
        run_(*run),
        contexts_(std::move(contexts)) {}

  // The settings of the run: its micro-batches.
  Plan Settings() const;

  // Plans, compiles and estimates, in the environment of rank 0. The Plan has the settings of the
  // run. InvalidArgument if the strategy refuses the request; ResourceExhausted if its Plan needs
  // more than `memory_limit` bytes (0: no limit), by the strategy's error or after compilation;
  // Internal for anything else.
  absl::StatusOr<Planned> PlanFor(int ranks, int64_t memory_limit = 0) const;

  // Plans again, in the environment of `rank`. Internal, ending with `when`, unless the Plan, the
  // Programs and the estimate are the same.
  absl::Status CheckSame(const Planned& planned, int ranks, int rank, absl::string_view when) const;

  // Checks a memory limit that no Plan can meet: the strategy's error must name the smallest limit
  // that can be met; planning must succeed with that limit, and fail with one byte less. Internal
  // if any of this does not hold.
  absl::Status CheckMemoryLimits(int ranks) const;

  // Returns whether the strategy refuses the request as InvalidArgument.
  bool Refuses(int ranks) const;

  // Makes the runner of the strategy's own passes.
  std::unique_ptr<PluginPasses> MakePasses(const KernelCatalogue& catalogue) const;

 private:
  strategy::PlanRequest RequestFor(int ranks, int64_t memory_limit) const;
  absl::StatusOr<Planned> PlanOnce(int ranks, int64_t memory_limit) const;
  absl::Status CompileAndEstimate(const strategy::PlanRequest& request,
                                  const PlanningContexts::SharedContext& context,
                                  Planned& planned) const;

  const Plugin& plugin_;
  const OptionValues options_;
  const TrainingRun& run_;
  const std::shared_ptr<const PlanningContexts> contexts_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_STRATEGY_PLANNER_H_
