// Prepares a run from a command line: configuration, model, data, backend, compiled Programs.
// Writes nothing and allocates none of the run's memory. Every rank of a run prepares it, together
// with the others.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_SETUP_H_
#define TESSERA_TOOLS_TRAIN_SETUP_SETUP_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/model/model.h"
#include "core/posix/available_cores.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/ranks/compare_ranks.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"

namespace tessera {

// The ranks for which a run is prepared.
struct RunRanks {
  Ranks* ranks = nullptr;        // those that run
  int size = 1;                  // with --plan_only it may exceed the ranks that run
  int of_host = 1;               // those on the host of this rank
  int cores = AvailableCores();  // of the host, for this rank
  GroupSite site = {};           // of those that run; empty with --plan_only
};

struct Setup {
  const ModelDefinition* definition = nullptr;
  RunRanks ranks;
  RunConfig config;
  std::string config_text;                 // the effective configuration, as it is saved
  std::vector<std::string> notes;          // for the user, in order
  std::unique_ptr<Checkpoint> checkpoint;  // the run resumes from it; nullptr for a new run
  std::vector<std::string> damaged;        // folders of newer checkpoints, on rank 0
  std::optional<Plan> plan;                // of --plan
  std::vector<RankFact> facts;             // facts of the command line, compared among ranks
  // The overridden fields of the saved configuration that may change the shape of the state.
  std::vector<std::string> shape_changes;
  std::unique_ptr<Model> model;
  std::unique_ptr<Dataset> dataset;  // nullptr if the data are not read: to sample, or to plan
  int64_t first_row = 0;             // of the data, at which training begins
  std::unique_ptr<Backend> backend;
  // The cluster for which the cost is estimated; set with several ranks, a strategy or --cluster.
  Cluster cluster;
  GroupSite site;  // of all ranks
  CompiledRun compiled;
  std::vector<Graph> dumped_graphs;  // as the Plan rewrote them, if the user wants to see them
  std::string plugin;                // the strategy that made the Plan; "": none
  StepCost estimated;                // a training step, if there is a cluster
};

// Returns the effective configuration as text, for --print_config.
absl::StatusOr<std::string> EffectiveConfig(const CommandLine& line,
                                            const ModelDefinition& definition);

// With --resume, takes the newest complete checkpoint, and refuses one whose state has another
// shape than the run's. Errors name the user's input that does not fit. Collective over the ranks
// that run. If they differ in anything, all return the same (agreed) error.
absl::StatusOr<Setup> PrepareRun(const CommandLine& line, const ModelDefinition& definition,
                                 const RunRanks& ranks);

// The two halves of PrepareRun, for programs that have to know whether an error is one of the
// command line and its files, or of the strategy or Plan that it names: the first one sets all but
// `compiled` and `estimated`, the second one these.
absl::StatusOr<Setup> ConfigureRun(const CommandLine& line, const ModelDefinition& definition,
                                   const RunRanks& ranks);
absl::Status PlanConfiguredRun(const CommandLine& line, Setup* setup);

// Checks the memory of a rank against config.memory_limit. ResourceExhausted names the smallest
// limit that could be met. Collective, and an agreed error.
absl::Status CheckMemoryLimit(const Setup& setup, const CommandLine& line);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_SETUP_H_
