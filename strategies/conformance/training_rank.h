// A rank of a training run of the conformance tests.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_TRAINING_RANK_H_
#define TESSERA_STRATEGIES_CONFORMANCE_TRAINING_RANK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "collectives/world.h"
#include "core/compile/compile.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/runtime/engine.h"
#include "core/runtime/mesh_collectives.h"
#include "core/train/programs.h"
#include "strategies/conformance/held_tensors.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {

// One rank of a training run, which is a thread or a process. Not thread-safe. The run and the
// world must outlive it.
class TrainingRank {
 public:
  TrainingRank(const TrainingRun& run, comm::World& world) : run_(run), world_(world) {}

  // Makes the engine and initialises the states. All ranks must call it.
  absl::Status Prepare(CompiledRun compiled);

  // Runs a training step, checks its traffic, and adds its outputs to `outputs`.
  absl::Status Step(int step, TensorSink& outputs);

  // Runs the Programs other than "train" that the run has, after the last step.
  absl::Status RunOthers(TensorSink& others);

  // Runs one more step, and the same step with fences around all buffers, which hold NaNs while
  // they are not live, and in arenas of exactly the planned size.
  absl::Status CheckMemory(int step);

  // Adds this rank's elements of all states to `states`.
  absl::Status GatherStates(TensorSink& states);

  // Return the results of the last step.
  const comm::Traffic& traffic() const { return traffic_; }
  int64_t peak_bytes() const { return engine_->run().arena_bytes(); }

  absl::Status Leave();

  // Reports an error to the other ranks: every wait of theirs ends with it.
  void Abort(const absl::Status& why);

 private:
  const Program& program() const { return *engine_->run().FindProgram(kTrain); }

  // Compares the communicators' counters with the traffic that the Program declares.
  absl::Status CheckTraffic(const comm::Traffic& before, const comm::Traffic& after);

  // Adds the outputs of the last run of a Program. Their names follow `prefix`.
  absl::Status AddOutputs(const char* name, const std::string& prefix, TensorSink& sink);

  // Sets this rank's elements of states, of which the global values are given by path.
  absl::Status SetStates(const Tensors& values);

  // Sets the inputs of "train" or "evaluate".
  absl::Status SetInputs(Engine& engine, const char* name, int step);

  const TrainingRun& run_;
  comm::World& world_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<MeshCollectives> collectives_;
  std::unique_ptr<Engine> engine_;
  comm::Traffic traffic_ = {};
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_TRAINING_RANK_H_
