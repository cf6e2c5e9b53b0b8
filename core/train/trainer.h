// Trains one run: steps, evaluations and checkpoints on an engine and a dataset. Every rank of a
// run has a trainer, and calls the same methods in the same order.
#ifndef TESSERA_CORE_TRAIN_TRAINER_H_
#define TESSERA_CORE_TRAIN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "core/runtime/engine.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/batch_inputs.h"
#include "core/train/data/dataset.h"
#include "core/train/ranks/ranks.h"
#include "core/train/state/load_state.h"

namespace tessera {

struct StepResult {
  int64_t step = 0;  // counts from 1
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;
  double seconds = 0;  // from reading the batch until the results are known
  // False if the loss or a gradient was not finite: then the state is unchanged and the step does
  // not count.
  bool finite = true;
  // The loss scale of the next step, lowered if this step is not finite. 0 if the run has none.
  double loss_scale = 0;
};

struct EvaluationResult {
  double loss = 0;  // the mean over all targets of the evaluated batches
  // The same of the model's metrics, in the order of Model::Metrics.
  std::vector<std::pair<std::string, double>> metrics;
  int64_t batches = 0;  // the number of evaluated batches
  double seconds = 0;
  bool complete = true;  // false if it was stopped before the last batch
};

// The results of each row of a batch; its rows are consecutive rows of DataSplit::kEvaluate.
struct PredictedRows {
  struct Column {
    std::string name;  // "class"
    bool integers = false;
    int64_t width = 1;                // values of a row
    std::vector<double> values = {};  // [count, width]
  };
  int64_t first = 0, count = 0;
  std::vector<Column> columns;
};

using ReceiveRows = std::function<absl::Status(const PredictedRows& rows)>;

// Returns whether an evaluation ends before a batch.
using StopEvaluation = std::function<absl::StatusOr<bool>(const absl::Status& read)>;

enum class Timing { kNone, kInstructions };

// One thread at a time. All arguments of the constructor must outlive it.
class Trainer {
 public:
  // `engine` needs the Programs that the called methods run, compiled from RecordRun (programs.h)
  // for this `model` and `config`. Without `ranks`, the run has one rank.
  Trainer(const RunConfig& config, const Model* model, Engine* engine, const Dataset* dataset,
          Ranks* ranks = nullptr);

  // Initialises every state.
  absl::Status Initialise();

  // Continues the run of a checkpoint (run_identity.h), and at this row of the data. Returns notes
  // for the user, which may be empty. Errors are agreed ones (ranks.h).
  absl::StatusOr<std::vector<std::string>> Load(const Checkpoint& checkpoint, Extra extra,
                                                int64_t row);

  // The number of completed steps, and the number of rows taken from the data.
  int64_t step() const { return step_; }
  int64_t rows() const { return rows_; }

  // Reads this rank's part of the batch of the next step, unless it was read. Step does it too, and
  // compares the data then, if it was not done before. An error of one rank would leave the others
  // in the middle of a step, and so would a long comparison: a caller that reads first can agree
  // with them on both. If MustCompareData() returns true then, it must call CompareData before
  // Step.
  absl::Status ReadBatch();

  // See Dataset::MustCompare and Dataset::Compare. After an error, the batch is read again.
  bool MustCompareData() const;
  absl::Status CompareData();

  // Executes the next step. With kInstructions, engine->executor(kTrain).times() has its times.
  absl::StatusOr<StepResult> Step(Timing timing = Timing::kNone);

  // Returns the number of batches of an evaluation: config.eval_batches at most, all if that is 0.
  int64_t EvaluationBatches() const;

  // Returns the loss on the held-out data, on EvaluationBatches() batches. Calls `stop` before each
  // batch, with this rank's status of reading it, and ends if it returns true. `stop` must return
  // the same on all ranks, and true or an error if one could not read. It must call CompareData if
  // MustCompareData() returns true. `receive`, if it is set, is called after each batch; the
  // Program needs outputs for rows.
  absl::StatusOr<EvaluationResult> Evaluate(const StopEvaluation& stop,
                                            const ReceiveRows& receive = nullptr);

  // Calls `receive` with the predictions of all held-out rows, batch by batch. Returns whether it
  // was not stopped before the last batch; `stop` as for Evaluate.
  absl::StatusOr<bool> Predict(const StopEvaluation& stop, const ReceiveRows& receive);

  // Sets the inputs of the training Program for the step after step(), for tools that run it
  // themselves.
  absl::Status SetTrainInputs(Engine& engine);

  // Saves a checkpoint: each rank writes its part of the state, and rank 0 the rest. `config_text`
  // is saved beside the state. On ranks other than 0, only the folder of the result is set. Errors
  // are agreed ones.
  absl::StatusOr<SavedCheckpoint> Save(const std::string& run_folder,
                                       const std::string& config_text);

 private:
  absl::Status ReadAndCompareBatch();
  // Runs a Program on batch after batch of the held-out data, and calls `after` after each. Returns
  // the number of batches that it has run.
  absl::StatusOr<int64_t> RunHeldOut(const std::string& program, int64_t batches,
                                     const StopEvaluation& stop,
                                     const std::function<absl::Status(int64_t batch)>& after);
  // Calls `receive` with the outputs for rows of a Program that has run on this batch.
  absl::Status PassRows(const std::string& program, int64_t batch, const ReceiveRows& receive);
  absl::StatusOr<CheckpointContents> ContentsToSave(const std::string& config_text) const;

  const RunConfig config_;
  const Model* const model_;
  Engine* const engine_;
  const Dataset* const dataset_;
  Ranks alone_;
  Ranks& ranks_;
  BatchInputs batch_inputs_;
  int64_t step_ = 0;
  int64_t rows_ = 0;
  std::optional<std::string> run_;      // the identity that the checkpoint states, if it was loaded
  std::vector<BatchInput> batch_;       // that the next step takes, if it was read
  std::optional<int64_t> batch_row_;    // its first row
  double read_seconds_ = 0;             // that it took
  std::vector<BatchInput> evaluation_;  // a batch of the held-out data
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_TRAINER_H_
