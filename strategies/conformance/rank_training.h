// Trains the Graphs of a run on ranks that are threads or processes, and gathers their tensors.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_RANK_TRAINING_H_
#define TESSERA_STRATEGIES_CONFORMANCE_RANK_TRAINING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/model/model.h"
#include "core/proto/plan.pb.h"
#include "core/tensor/shape.h"
#include "core/train/config/run_config.pb.h"
#include "strategies/conformance/held_tensors.h"

namespace tessera {

// Values for a run, in place of those that it draws.
struct GivenValues {
  // The global values of an input of the model in a step, counted from 0.
  std::function<std::vector<double>(const std::string& input, int step)> batch;
  std::function<double(int step)> lr;
  Tensors states;  // before the first step; others are as the model initialises them
};

// A run of "initialise" and "train", and perhaps "evaluate" and "generate".
struct TrainingRun {
  std::vector<Graph> graphs;
  int steps = 20;
  double lr = 0.1;
  double ignored = 0.1;       // the share of targets that do not count
  bool check_memory = false;  // one more step checks the use of memory (CheckMemory)
  uint64_t delays = 5;        // the seed of pauses before collectives
  std::function<std::unique_ptr<Backend>()> backend;
  // Makes the runner of plugins' passes, for each rank; null if there are none.
  std::function<std::unique_ptr<PluginPasses>(const KernelCatalogue& catalogue)> plugin_passes;
  std::shared_ptr<const Model> model;        // that recorded the Graphs
  std::shared_ptr<const GivenValues> given;  // null: batches are drawn, and the rate is `lr`
  RunConfig config;
};

// Records the Graphs. Every gradient of a parameter is an output "PATH.grad" of the training Graph.
TrainingRun RecordTraining(std::shared_ptr<const Model> model, const RunConfig& config);

// Adds "evaluate", and "generate" if the model has it.
void AddOtherPrograms(TrainingRun& run);

const Graph& GraphOf(const TrainingRun& run, absl::string_view name);

struct TrainingResult {
  std::vector<Tensors> outputs;  // by step
  Tensors states;                // after the last step
  Tensors others = {};           // outputs of an evaluation and of a generation after that
  // Global shapes of those states that are parameters.
  std::map<std::string, Shape> parameters = {};
  // For each operation, the traffic of a step on the rank that has the most; and the planned peak.
  comm::Traffic traffic = {};
  int64_t peak_bytes = 0;
};

// Trains with `plan` on `ranks` threads. Internal if ranks compile different Programs, hold
// different values of the same element, or communicate other calls or bytes in a step than the
// Program declares.
absl::StatusOr<TrainingResult> Train(const TrainingRun& run, const Plan& plan, int ranks);

// Returns the error that caused those of other ranks, with the number of its rank; OK if there is
// none.
absl::Status CauseOf(absl::Span<const absl::Status> statuses);

// Trains on ranks that are processes and communicate over `backend` ("shm", "tcp"). Internal, as
// for Train, or if the values of a rank have other bits than `expected`, the result of Train for
// the same Plan and number of ranks. Call it while this process has no other threads.
absl::Status TrainOnProcesses(const TrainingRun& run, const Plan& plan, int ranks,
                              const std::string& backend, const TrainingResult& expected);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_RANK_TRAINING_H_
