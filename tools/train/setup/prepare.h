// Plans and compiles a configured run, and estimates its cost: the second stage of its preparation.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_PREPARE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_PREPARE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/cost/work_division.h"
#include "core/graph/graph.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/strategy.pb.h"
#include "core/train/config/run_config.pb.h"
#include "strategies/host/plugin.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/configure.h"

namespace tessera {

struct PreparedRun {
  CompiledRun compiled;
  std::vector<Graph> dumped_graphs;   // as the Plan rewrote them, on rank 0, for --dump=graph
  std::string plugin;                 // the name of the strategy's plugin; "" without a strategy
  strategy::Explanation explanation;  // of the strategy, on rank 0; empty if it gave none
  std::optional<Plugin> pass_plugin;  // that plugin, if the Plan lists passes of plugins
  StepCost estimated;                 // a training step, if anything is priced
  WorkDivision division;              // of a training step, among the ranks
};

// Records the Graphs, makes the Plan of --plan, of a strategy, of the checkpoint, or the default
// one, and compiles. Rank 0 plans. Refuses a checkpoint whose state has another shape than the
// run's. What a strategy decides about settings (batch, micro-batches, recomputation) is set in
// `configured`. Collective; errors are agreed ones. `notes` receives notes for the user,
// also if it fails.
absl::StatusOr<PreparedRun> PrepareRun(const CommandLine& line, ConfiguredRun& configured,
                                       std::vector<std::string>* notes);

// Returns the model FLOPs utilization of the estimated step, in [0, 1]: the FLOPs of the model,
// without recomputation and without what ranks repeat, over those of which the devices of all ranks
// are capable in the dtype of the matmuls.
double EstimatedMfu(const ConfiguredRun& configured, const PreparedRun& prepared);

// Plans and compiles a run with another configuration on this rank alone.
absl::StatusOr<CompiledRun> CompileAlone(const CommandLine& line, const ConfiguredRun& configured,
                                         const RunConfig& config);

// Compiles other Graphs by the completed Plan of a prepared run, which decides about paths that
// they have in common with the Graphs of the run. Collective; errors are agreed ones.
absl::StatusOr<CompiledRun> CompileByPlanOf(
    const CommandLine& line, const ConfiguredRun& configured, const PreparedRun& prepared,
    const std::shared_ptr<const std::vector<Graph>>& graphs);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_PREPARE_H_
