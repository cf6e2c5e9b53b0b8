// The Plan of a run: from a file, the resumed run's, or the default one of one process.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_PLAN_SOURCE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_PLAN_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"

namespace tessera {

// Returns the name of the strategy that makes the Plan of a run, which is new (`checkpoint` is
// null) or resumes a checkpoint: that of --strategy, or the default one. Returns "" if no strategy
// makes it: with --plan, for one rank, and for a checkpoint whose Plan is for several ranks.
absl::StatusOr<std::string> StrategyOfRun(const CommandLine& line, const Checkpoint* checkpoint,
                                          int ranks);

// Returns the Plan in the file of --plan, nothing without the flag. Collective: rank 0 reads the
// file. Errors are agreed ones, and name the file and the line.
absl::StatusOr<std::optional<Plan>> ReadPlanFlag(const CommandLine& line, Ranks& ranks);

// Sets the configuration's batch, dtype, micro-batches and recomputation to those that a Plan
// states.
// InvalidArgument if a flag of the same command line contradicts them.
absl::Status ApplyPlanSettings(const Plan& plan, const CommandLine& line, RunConfig* config);

// Returns the Plan of a run of `batch` rows on `ranks` ranks: `open` (of --plan, or a strategy's)
// if there is one, else that of `checkpoint` if there is one, else `settings`, which one process
// needs only. `settings` (PlanOfConfig) fills in what the Plan leaves open. A note says so if the
// checkpoint's Plan is not used. InvalidArgument if there is none for that many ranks.
absl::StatusOr<Plan> PlanOfRun(const CommandLine& line, const Plan& settings,
                               const std::optional<Plan>& open, const Checkpoint* checkpoint,
                               int64_t batch, int ranks, std::vector<std::string>* notes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_PLAN_SOURCE_H_
