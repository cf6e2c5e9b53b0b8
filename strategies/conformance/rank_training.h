// Trains the Graphs of a run on ranks that are threads or processes, and gathers what they hold.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_RANK_TRAINING_H_
#define TESSERA_STRATEGIES_CONFORMANCE_RANK_TRAINING_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/program/compile.h"
#include "core/proto/plan.pb.h"
#include "core/tensor/shape.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/model.h"
#include "strategies/conformance/held_tensors.h"

namespace tessera {

// A run of "initialise" and "train".
struct TrainingRun {
  std::vector<Graph> graphs;
  int64_t batch = 0, sequence = 0, vocabulary = 0;
  int steps = 20;
  double lr = 0.1;
  double ignored = 0.1;       // the share of targets that do not count
  bool check_memory = false;  // one more step uses memory as it is planned (CheckMemory)
  uint64_t delays = 5;        // the seed of pauses before collectives
  std::function<std::unique_ptr<Backend>()> backend;
  // Makes what runs the passes of plugins, for each rank; null: there are none.
  std::function<std::unique_ptr<PluginPasses>(const KernelCatalogue& catalogue)> plugin_passes;
  std::shared_ptr<const Model> model;  // of which the Graphs are
  RunConfig config;
};

// Records the Graphs. Every gradient of a parameter is an output "PATH.grad" of the training Graph.
TrainingRun RecordTraining(std::shared_ptr<const Model> model, const RunConfig& config);

struct TrainingResult {
  std::vector<Tensors> outputs;  // by step
  Tensors states;                // after the last step
  // Global shapes of those states that are parameters.
  std::map<std::string, Shape> parameters = {};
  // The traffic of a step, of each operation that of the rank with most; and the planned peak.
  comm::Traffic traffic = {};
  int64_t peak_bytes = 0;
};

// Trains with `plan` on `ranks` threads. Internal if ranks compile different Programs or differ in
// what they hold of one element, or a step communicates other calls or bytes than its Program
// declares.
absl::StatusOr<TrainingResult> Train(const TrainingRun& run, const Plan& plan, int ranks);

// Trains on ranks that are processes and communicate over `backend` ("shm", "tcp"). Internal, as
// for Train, or if what a rank holds has other bits than `expected`, which Train has returned for
// the same Plan and number of ranks. Call it while this process has no other threads.
absl::Status TrainOnProcesses(const TrainingRun& run, const Plan& plan, int ranks,
                              const std::string& backend, const TrainingResult& expected);

// The largest difference of two results, relative to the norm of its tensor, and where it is.
struct Difference {
  double relative = 0;
  std::string where;
  // The second result's tensor is the first one's times this factor; 0: it is no multiple of it.
  double factor = 0;
};
// Looks no further than the first step with a difference above `enough`.
Difference Compare(const TrainingResult& a, const TrainingResult& b,
                   double enough = std::numeric_limits<double>::infinity());

// The same of a run that lowers the precision: of the first step all outputs, of later ones the
// loss, and all states after the last. (Gradients of later steps are those of parameters that
// differ already, and those of small tensors show that more than anything else.)
Difference CompareLowered(const TrainingResult& a, const TrainingResult& b);

// The same of all parameters after the last step as one vector, without the key part of attention's
// bias, whose true gradient is 0: AdamW makes noise of it as large as an update.
Difference CompareParameters(const TrainingResult& a, const TrainingResult& b);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_RANK_TRAINING_H_
