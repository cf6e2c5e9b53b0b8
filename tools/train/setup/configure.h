// Configures a run from a command line: the first stage of its preparation (prepare.h is the
// other). Writes nothing and allocates none of the run's memory. Every rank of a run prepares it,
// together with the others.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_CONFIGURE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_CONFIGURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/cost/prices/measured_prices.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/model/model.h"
#include "core/posix/available_cores.h"
#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/kernel_selection.h"
#include "tools/train/setup/priced_cluster.h"

namespace tessera {

// The ranks for which a run is prepared.
struct RunRanks {
  Ranks* ranks = nullptr;        // those that run
  int size = 1;                  // with --plan_only it may exceed the ranks that run
  int of_host = 1;               // those on the host of this rank
  int cores = AvailableCores();  // of the host, for this rank
  GroupSite site = {};           // of those that run; empty with --plan_only
  bool are_threads = false;      // of this process
  bool on_loopback = false;      // their hosts are only named: all ranks are on one
};

// The memory that a rank may use.
struct MemoryBound {
  int64_t bytes = 0;       // 0: no bound
  std::string written;     // as the user wrote it, or where it comes from
  bool of_device = false;  // memory of the host does not count

  // Returns the bytes of a compiled run that the bound is for.
  int64_t Bounded(const CompiledRun& run) const {
    return run.arena_bytes() - (of_device ? run.arenas[MemorySpace::kOffloadHost] : 0);
  }
};

struct ConfiguredRun {
  const ModelDefinition* definition = nullptr;
  RunRanks ranks;
  RunConfig config;
  std::string config_text;                 // the effective configuration, as it is saved
  std::vector<std::string> shape_changes;  // of a resumed run (effective_config.h)
  std::unique_ptr<Model> model;
  std::unique_ptr<Checkpoint> checkpoint;  // the run resumes from it; nullptr for a new run
  std::vector<std::string> damaged;        // folders of newer checkpoints, on rank 0
  std::optional<Plan> plan;                // of --plan
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KernelSelection> kernels;  // for `backend`; rank 0 decides
  std::unique_ptr<Dataset> dataset;  // nullptr if the data are not read: to sample, or to plan
  int64_t first_row = 0;             // of the data, at which training begins
  PricedCluster priced;              // empty if nothing is priced
  // Measured prices of this machine, on rank 0; null if another cluster is priced.
  std::shared_ptr<const MeasuredPrices> prices;
  MemoryBound memory_bound;

  // Returns the unit in which its speed is counted.
  SampleUnit unit() const { return model->Unit(config.sequence()); }
};

// Returns the bound of a configured run, or else a rank's share of what this machine has available;
// no bound for another machine (--cluster) whose memory is not described.
MemoryBound MemoryOfRank(const CommandLine& line, const ConfiguredRun& configured);

// Returns the effective configuration of a new run.
absl::StatusOr<RunConfig> EffectiveRunConfig(const CommandLine& line,
                                             const ModelDefinition& definition);

// Returns the effective configuration as text, for --print_config.
absl::StatusOr<std::string> EffectiveConfigText(const CommandLine& line,
                                                const ModelDefinition& definition);

// With --resume, takes the newest complete checkpoint. Errors name the user's input that does not
// fit: the command line or a file. Collective over the ranks that run. If they differ in anything,
// all return the same (agreed) error. `notes` receives notes for the user, in order, also if it
// fails.
absl::StatusOr<ConfiguredRun> ConfigureRun(const CommandLine& line,
                                           const ModelDefinition& definition, const RunRanks& ranks,
                                           std::vector<std::string>* notes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_CONFIGURE_H_
