// Times the training steps of a run on its ranks: the step, its computation alone and its
// communication alone.
#ifndef TESSERA_CORE_TRAIN_MEASURE_STEP_TIMER_H_
#define TESSERA_CORE_TRAIN_MEASURE_STEP_TIMER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/cost/prices/measured_prices.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/model/model.h"
#include "core/runtime/engine.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/measure/collective_timer.h"
#include "core/train/measure/switchable_collectives.h"
#include "core/train/programs.h"
#include "core/train/ranks/ranks.h"
#include "core/train/trainer.h"

namespace tessera {

// A run whose steps are timed.
struct TimedRun {
  RunConfig config;
  const Model* model = nullptr;
  const Dataset* dataset = nullptr;
};

// Every rank of a run has a timer, and calls the same methods in the same order. Times are seconds
// of the slowest rank; all ranks begin together. Not thread-safe.
class StepTimer {
 public:
  // Collective. Makes the engine of `compiled` (from CompileTogether), and initialises its state.
  // All objects that are passed by pointer must outlive the timer. Its destruction is collective
  // too.
  static absl::StatusOr<std::unique_ptr<StepTimer>> Create(const TimedRun& run,
                                                           CompiledRun compiled, Backend* backend,
                                                           Ranks* ranks);

  Engine& engine() { return *engine_; }
  // Returns the collectives that this rank has executed so far; empty for a run of one rank.
  std::vector<CollectiveCount> Counts() const;

  // Executes the next training step. `result` may be null.
  absl::StatusOr<double> TimeStep(StepResult* result = nullptr);
  // Executes the next training step, and records its collectives for TimeCommunication.
  absl::StatusOr<StepResult> RecordStep();

  // Runs a training step and returns the time of its computation alone: each collective ends before
  // the next instruction begins, and its time is not counted. (Sends and receives may overlap with
  // computation; waits for them are not counted.) The step is not counted as a step of the run, but
  // it changes the run's state.
  absl::StatusOr<double> TimeComputation();
  // SetStateAside copies the state of the run, and PutStateBack restores it from the copy. Call
  // them before and after TimeComputation.
  absl::Status SetStateAside();
  absl::Status PutStateBack();
  // Runs the recorded collectives, one after the other, and returns their time. It overwrites their
  // buffers, which may hold state of the run.
  absl::StatusOr<double> TimeCommunication();
  // Runs each distinct one of them beside computation, and returns the prices of the run's kernels
  // and collectives (the means of all ranks) by all measurements since the
  // last call. `job` gives the host of each rank. Call it after TimeComputation and
  // TimeCommunication, before PutStateBack.
  absl::StatusOr<MeasuredPrices> TakePrices(const GroupSite& job, const std::string& network);

 private:
  StepTimer(const TimedRun& run, Ranks* ranks) : run_(run), ranks_(*ranks) {}

  const Program& program() const { return engine_->executor(kTrain).program(); }

  // Returns the means over ranks of this rank's prices, with one measurement each. Collective.
  absl::StatusOr<KernelPrices> MeanOfRanks(const KernelPrices& mine);
  // Calls a function on all ranks at once, and returns its time. Sets `mine`, unless it is null, to
  // that of this rank. Collective.
  absl::StatusOr<double> TimeOnAllRanks(const std::function<absl::Status()>& function,
                                        double* mine = nullptr);

  const TimedRun run_;
  Ranks& ranks_;
  std::unique_ptr<SwitchableCollectives> collectives_;  // null for one rank
  std::unique_ptr<CollectiveTimer> collective_timer_;   // null for one rank
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Trainer> trainer_;
  // For each timed step of this rank: the times of its instructions, and its seconds without
  // collectives.
  std::vector<std::pair<Table<InstructionId, TimeSpan>, double>> computations_;
  std::vector<std::vector<char>> state_;  // copies of the engine's states, in their order
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEASURE_STEP_TIMER_H_
