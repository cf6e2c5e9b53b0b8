// The Graphs of a run: a model and a configuration give initialise, train, evaluate and generate,
// all over one state.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_PROGRAMS_H_
#define TESSERA_CORE_TRAIN_PROGRAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/model.h"
#include "core/train/optimizer.h"

namespace tessera {

// The Graphs' names.
inline constexpr char kInitialise[] = "initialise";
inline constexpr char kTrain[] = "train";
inline constexpr char kEvaluate[] = "evaluate";
inline constexpr char kGenerate[] = "generate";

// What RecordUpdate says, over the loss with dropout. Inputs: tokens, targets, lr, and seed and
// step where the model draws.
absl::StatusOr<Graph> RecordTrain(const Model& model, const RunConfig& config,
                                  const DecayRule& decays = DecaysByDefault);

// Writes the first value of every state of `train`. Input: seed, where one is random.
absl::StatusOr<Graph> RecordInitialise(const Graph& train);

// The loss without dropout. Inputs: tokens, targets. Outputs: loss, and count, the number of
// targets that it is the mean of, by which the losses of several batches are weighed.
absl::StatusOr<Graph> RecordEvaluate(const Model& model, const RunConfig& config);

// One token. Inputs: token, position (0 to model.max_sequence() - 1). Output: logits.
absl::StatusOr<Graph> RecordGenerate(const Model& model);

enum class RunParts {
  kAll,       // everything
  kEvaluate,  // evaluate alone
  kGenerate,  // generate alone
};

// Those Graphs of a run, in the order initialise, train, evaluate, generate. Of kAll, generate is
// left out where config.sample asks for no tokens.
absl::StatusOr<std::vector<Graph>> RecordRun(const Model& model, const RunConfig& config,
                                             RunParts parts);

// The open Plan that the configuration asks for: micro-batches of train and evaluate, recomputed
// blocks of train.
Plan MakePlan(const RunConfig& config, absl::Span<const Graph> graphs);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_PROGRAMS_H_
