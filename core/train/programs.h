// Records the Graphs of a run (initialise, train, evaluate, predict and generate, over one state)
// from a model and a configuration.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_PROGRAMS_H_
#define TESSERA_CORE_TRAIN_PROGRAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/model/model.h"
#include "core/proto/plan.pb.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/optimizer.h"

namespace tessera {

// The Graphs' names.
inline constexpr char kInitialise[] = "initialise";
inline constexpr char kTrain[] = "train";
inline constexpr char kEvaluate[] = "evaluate";
inline constexpr char kPredict[] = "predict";
inline constexpr char kGenerate[] = "generate";

// The names of outputs with a value for each row of the batch begin with this: "row.class".
inline constexpr char kOfRow[] = "row.";

// Records the loss with dropout, its gradients and the optimizer's update (RecordUpdate), with a
// loss scale for f16. Inputs: those of a batch, lr, and seed and step if the model draws
// random numbers. Returns ResourceExhausted as soon as the state exceeds the limit.
absl::StatusOr<Graph> RecordTrain(const Model& model, const RunConfig& config,
                                  const DecayRule& decays = DecaysByDefault,
                                  const StateLimit& state_limit = {});

// Records the initial value of every state of `train`. Input: seed, if one of them is random.
absl::StatusOr<Graph> RecordInitialise(const Graph& train);

// Records the loss without dropout. Inputs: those of a batch. Outputs: loss, and count, the number
// of targets in its mean, which is the weight of this batch in the mean over several batches; and
// the sum of each metric over those targets, by its name. If `rows` is set, also, for each row,
// row.loss, the mean loss of its targets (0 if none is valid), and what the model predicts of it.
absl::StatusOr<Graph> RecordEvaluate(const Model& model, const RunConfig& config,
                                     bool rows = false);

// Records what the model predicts of each row. Inputs: those of Model::PredictionFields. Outputs:
// row.class and the like. Unimplemented if it predicts nothing without targets.
absl::StatusOr<Graph> RecordPredict(const Model& model, const RunConfig& config);

// Records the generation of one token. Inputs: token, position (0 to max_sequence() - 1). Output:
// logits. Unimplemented if the model generates no text.
absl::StatusOr<Graph> RecordGenerate(const Model& model);

enum class RunGraphs {
  kAll,           // those of a run that trains: all but predict
  kEvaluate,      // evaluate alone
  kEvaluateRows,  // the same with outputs for each row
  kPredict,       // predict alone
  kGenerate,      // generate alone
};

// Records these Graphs of a run, in the order initialise, train, evaluate, generate. With kAll,
// generate is omitted if config.sample.tokens is 0. `state_limit` as for RecordTrain.
absl::StatusOr<std::vector<Graph>> RecordRun(const Model& model, const RunConfig& config,
                                             RunGraphs selection,
                                             const StateLimit& state_limit = {});

// Returns the open Plan of a configuration. It sets the micro-batches of train, evaluate and
// predict, what train recomputes, and the precision of all Graphs.
Plan PlanOfConfig(const RunConfig& config, absl::Span<const Graph> graphs);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_PROGRAMS_H_
