// The training loop: steps, and evaluations and checkpoints between them. All ranks of a run run
// it; rank 0 writes and prints.
#ifndef TESSERA_TOOLS_TRAIN_TRAIN_LOOP_H_
#define TESSERA_TOOLS_TRAIN_TRAIN_LOOP_H_

#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "core/cost/machine.h"
#include "core/proto/estimate.pb.h"
#include "core/runtime/engine.h"
#include "core/train/measure/measured_steps.h"
#include "core/train/ranks/ranks.h"
#include "core/train/record/metrics.h"
#include "core/train/record/progress.h"
#include "core/train/trainer.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/price_keeper.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/report/training_summary.h"
#include "tools/train/setup/configure.h"

namespace tessera {

struct LoopOptions {
  std::string run_folder;
  RunFolder* folder = nullptr;  // the same on rank 0, open
  std::string trace;            // a file, or ""
  std::string command;          // the command that starts this program, as a shell reads it
  int64_t log_every = 0;        // steps between step lines; 0: a few lines a second
  StepCost estimated;           // a step; empty if nothing is priced
  std::string plugin;           // of the strategy; "": none
  // The checkpoint from which the run resumes; -1 and "" for a new run.
  int64_t start_step = -1;
  std::string start_folder = {};
};

// Not thread-safe. All arguments must outlive it.
class TrainLoop {
 public:
  TrainLoop(const ConfiguredRun& configured, const MachineRates& rates, const LoopOptions& options,
            Engine* engine, Trainer* trainer);

  // Trains to the last step: lines and a bar, metrics.jsonl, evaluations, checkpoints, a sample at
  // the end. Returns the process's exit code: 0, or 128 + the signal after an interrupt. Errors: a
  // loss that is not finite; a checkpoint or line that cannot be written; data that cannot be read
  // or have changed, after a save; and, at the end, communication that differs from the estimate.
  absl::StatusOr<int> Run();

 private:
  // Runs the steps that are left, until a signal or an error. `metrics` is null on ranks other than
  // 0.
  absl::Status RunSteps(Progress& progress, MetricsLog* metrics);
  // Returns whether the instructions of a step are timed.
  bool IsTimed(int64_t step) const;
  // Runs the next step, again with a lower loss scale if gradients overflow f16, agrees with the
  // other ranks, and shows the result.
  absl::StatusOr<StepResult> RunStep(Progress& progress);
  // Adds the times of the last step's instructions to the summary.
  void RecordTimes();
  // Prints how long an evaluation after this step will take, if a user would notice the wait.
  void AnnounceEvaluation(const StepResult& result, Progress& progress);
  absl::StatusOr<EvaluationResult> Evaluate();
  // Agrees with the other ranks, after a step, on whether to stop. The batch of the next step has
  // been read then, so that no rank finds an error of the data in mid-step.
  absl::Status AgreeAfterStep(const StepResult& result, Progress& progress);
  bool IsFasterThanItsLimit(const StepResult& result) const;
  // Measures the machine again, on rank 0.
  absl::Status MeasureAgain(const StepResult& result, Progress& progress);
  // Evaluates, writes the step's metrics, and saves, as far as they are due after this step.
  absl::Status AfterStep(const StepResult& result, Progress& progress, MetricsLog* metrics);
  absl::Status Save(Progress* progress);
  // Returns OK if the output can still be written. Otherwise saves the run, and returns the error.
  absl::Status CheckOutput(Progress* progress);
  absl::Status TraceStep(const StepResult& result, int64_t zero_ns, Progress& progress);
  // Return the error of data that cannot be read, and of a loss or norm that is not finite.
  absl::Status DataError();
  absl::Status NotFinite(const StepResult& result) const;
  StepScale Scale() const;
  std::string ResumeCommand() const;
  std::string LastCheckpoint() const;

  const ConfiguredRun& configured_;
  MachineRates rates_;
  int64_t earlier_peak_ = 0;  // bytes of resident memory, before the rates were measured again
  const LoopOptions options_;
  Engine* const engine_;
  Trainer* const trainer_;
  Ranks& ranks_;
  StopRequest stop_;
  absl::Status output_status_;  // of this rank's output, when last checked
  bool output_failed_ = false;  // that of rank 0, as the ranks have agreed
  absl::Status data_status_;    // of the data that this rank has read for the next step or batch
  bool data_failed_ = false;    // whether a rank could not read, as the ranks have agreed
  StepScale scale_;
  const int64_t first_step_;
  double measure_at_ = 0, measure_every_ = 5;  // seconds: the earliest time of the next measurement
  int64_t saved_step_ = -1;          // the newest checkpoint of this run; -1 if there is none
  std::string saved_folder_;         // the folder of that checkpoint
  bool saved_here_ = false;          // whether it is in folder_
  std::set<std::string> warned_;     // of saves, and printed
  double seconds_of_batch_ = 0;      // of an evaluation, the last or an estimated one; 0: not known
  bool evaluation_stopped_ = false;  // whether the newest evaluation was interrupted
  TrainingSummary summary_;
  MeasuredSteps measured_;
  PriceKeeper prices_;
  std::optional<StepMetrics::Communication> communication_;  // of the last step, if it was timed
};

// "eval_loss 1.5508 (20 batches, 529 ms)"
std::string EvaluationText(const EvaluationResult& result);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_TRAIN_LOOP_H_
