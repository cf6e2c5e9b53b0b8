#include "core/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "core/train/run_identity.h"
#include "core/train/schedule.h"
#include "core/train/state/engine_states.h"
#include "core/train/state/save_state.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::StatusOr<double> ReadScalar(Engine& engine, absl::string_view program,
                                  absl::string_view output) {
  double value = 0;
  RETURN_IF_ERROR(engine.ReadOutput(program, output, absl::MakeSpan(&value, 1)));
  return value;
}

bool HasOutput(const Program& program, absl::string_view name) {
  return absl::c_any_of(program.outputs,
                        [&](const NamedValue& output) { return output.name == name; });
}

// Converts a seed, which is unsigned, for a scalar input, which is signed.
int64_t AsSigned(uint64_t seed) { return static_cast<int64_t>(seed); }

}  // namespace

Trainer::Trainer(const RunConfig& config, const Model* model, Engine* engine,
                 const Dataset* dataset, Ranks* ranks)
    : config_(config),
      model_(model),
      engine_(engine),
      dataset_(dataset),
      ranks_(ranks == nullptr ? alone_ : *ranks),
      batch_inputs_(dataset, model->BatchFields(config.sequence()), config.batch()) {}

absl::Status Trainer::Initialise() {
  RETURN_IF_ERROR(engine_->SetScalarIfRead(kInitialise, "seed", AsSigned(config_.seed())));
  step_ = 0;
  rows_ = 0;
  run_.reset();
  return engine_->Run(kInitialise);
}

absl::StatusOr<std::vector<std::string>> Trainer::Load(const Checkpoint& checkpoint, Extra extra,
                                                       int64_t row) {
  const bool scales_anew = LacksLossScale(checkpoint, engine_->states());
  if (scales_anew) RETURN_IF_ERROR(Initialise());
  absl::StatusOr<std::vector<std::string>> notes = LoadState(checkpoint, *model_, *engine_, extra);
  RETURN_IF_ERROR(ranks_.Agree(notes.status()));
  if (scales_anew)
    notes->push_back("the checkpoint has no loss scale: it begins at its first value");
  step_ = checkpoint.step();
  rows_ = row;
  run_ = checkpoint.run();
  return notes;
}

absl::Status Trainer::ReadBatch() {
  if (batch_row_ == rows_) return absl::OkStatus();
  const double begin = Now();
  batch_row_.reset();
  RETURN_IF_ERROR(batch_inputs_.Read(*engine_, kTrain, DataSplit::kTrain, rows_, &batch_));
  batch_row_ = rows_;
  read_seconds_ = Now() - begin;
  return absl::OkStatus();
}

bool Trainer::MustCompareData() const { return dataset_->MustCompare(); }

absl::Status Trainer::CompareData() {
  absl::Status same = dataset_->Compare();
  if (!same.ok()) batch_row_.reset();
  return same;
}

absl::Status Trainer::ReadAndCompareBatch() {
  if (batch_row_ == rows_) return absl::OkStatus();
  RETURN_IF_ERROR(ReadBatch());
  return CompareData();
}

absl::Status Trainer::SetTrainInputs(Engine& engine) {
  RETURN_IF_ERROR(ReadAndCompareBatch());
  RETURN_IF_ERROR(SetBatch(engine, kTrain, batch_));
  const double lr = LearningRate(config_.optimizer(), step_ + 1, config_.steps());
  RETURN_IF_ERROR(engine.SetInput(kTrain, "lr", absl::MakeConstSpan(&lr, 1)));
  RETURN_IF_ERROR(engine.SetScalarIfRead(kTrain, "seed", AsSigned(config_.seed())));
  return engine.SetScalarIfRead(kTrain, "step", step_ + 1);
}

absl::StatusOr<StepResult> Trainer::Step(Timing timing) {
  RETURN_IF_ERROR(ReadAndCompareBatch());
  const double begin = Now() - std::exchange(read_seconds_, 0);
  StepResult result;
  result.step = step_ + 1;
  result.lr = LearningRate(config_.optimizer(), result.step, config_.steps());
  RETURN_IF_ERROR(SetTrainInputs(*engine_));
  RETURN_IF_ERROR(timing == Timing::kNone ? engine_->Run(kTrain)
                                          : engine_->executor(kTrain).RunTimed());
  ASSIGN_OR_RETURN(result.loss, ReadScalar(*engine_, kTrain, "loss"));
  ASSIGN_OR_RETURN(result.grad_norm, ReadScalar(*engine_, kTrain, "grad_norm"));
  ASSIGN_OR_RETURN(const double finite, ReadScalar(*engine_, kTrain, "finite"));
  if (HasOutput(engine_->executor(kTrain).program(), "loss_scale")) {
    ASSIGN_OR_RETURN(result.loss_scale, ReadScalar(*engine_, kTrain, "loss_scale"));
  }
  result.seconds = Now() - begin;
  result.finite = finite != 0;
  if (result.finite) {
    ++step_;
    rows_ += config_.batch();
  }
  return result;
}

int64_t Trainer::EvaluationBatches() const {
  const int64_t all = batch_inputs_.EvaluationBatches();
  return config_.eval_batches() > 0 ? std::min(all, config_.eval_batches()) : all;
}

absl::StatusOr<int64_t> Trainer::RunHeldOut(
    const std::string& program, int64_t batches, const StopEvaluation& stop,
    const std::function<absl::Status(int64_t batch)>& after) {
  for (int64_t batch = 0; batch < batches; ++batch) {
    const absl::Status read = batch_inputs_.Read(*engine_, program, DataSplit::kEvaluate,
                                                 batch * config_.batch(), &evaluation_);
    ASSIGN_OR_RETURN(const bool stopped, stop(read));
    if (stopped) return batch;
    RETURN_IF_ERROR(read);
    RETURN_IF_ERROR(SetBatch(*engine_, program, evaluation_));
    RETURN_IF_ERROR(engine_->Run(program));
    RETURN_IF_ERROR(after(batch));
  }
  return batches;
}

absl::Status Trainer::PassRows(const std::string& program, int64_t batch,
                               const ReceiveRows& receive) {
  const Program& ran = engine_->executor(program).program();
  PredictedRows rows;
  rows.first = batch * config_.batch();
  rows.count = std::min(config_.batch(), dataset_->EvaluationRows() - rows.first);
  for (const NamedValue& output : ran.outputs) {
    absl::string_view name = output.name;
    if (!absl::ConsumePrefix(&name, kOfRow)) continue;
    const TensorType& type = ran.value(output.value).type;
    PredictedRows::Column column = {std::string(name), !IsFloating(type.dtype)};
    column.width = NumElements(type.shape) / config_.batch();
    column.values.resize(NumElements(type.shape));
    RETURN_IF_ERROR(engine_->ReadOutput(program, output.name, absl::MakeSpan(column.values)));
    column.values.resize(rows.count * column.width);
    rows.columns.push_back(std::move(column));
  }
  return receive(rows);
}

absl::StatusOr<EvaluationResult> Trainer::Evaluate(const StopEvaluation& stop,
                                                   const ReceiveRows& receive) {
  const double begin = Now();
  const int64_t batches = EvaluationBatches();
  EvaluationResult result;
  double sum = 0, targets = 0;
  for (const std::string& name : model_->Metrics()) result.metrics.emplace_back(name, 0);
  const auto add = [&](int64_t batch) -> absl::Status {
    ASSIGN_OR_RETURN(const double loss, ReadScalar(*engine_, kEvaluate, "loss"));
    ASSIGN_OR_RETURN(const double count, ReadScalar(*engine_, kEvaluate, "count"));
    sum += loss * count;
    targets += count;
    for (auto& [name, total] : result.metrics) {
      ASSIGN_OR_RETURN(const double of_batch, ReadScalar(*engine_, kEvaluate, name));
      total += of_batch;
    }
    return receive == nullptr ? absl::OkStatus() : PassRows(kEvaluate, batch, receive);
  };
  ASSIGN_OR_RETURN(result.batches, RunHeldOut(kEvaluate, batches, stop, add));
  result.complete = result.batches == batches;
  result.loss = targets > 0 ? sum / targets : 0;
  for (auto& [name, total] : result.metrics) total = targets > 0 ? total / targets : 0;
  result.seconds = Now() - begin;
  return result;
}

absl::StatusOr<bool> Trainer::Predict(const StopEvaluation& stop, const ReceiveRows& receive) {
  const int64_t batches = batch_inputs_.EvaluationBatches();
  const auto pass = [&](int64_t batch) { return PassRows(kPredict, batch, receive); };
  ASSIGN_OR_RETURN(const int64_t ran, RunHeldOut(kPredict, batches, stop, pass));
  return ran == batches;
}

absl::StatusOr<CheckpointContents> Trainer::ContentsToSave(const std::string& config_text) const {
  CheckpointContents contents;
  contents.step = step_;
  contents.rows = rows_;
  contents.sequence = config_.sequence();
  contents.state_version = model_->state_version();
  contents.data = dataset_->Fingerprint();
  contents.run = run_.has_value() ? *run_ : RunIdentity(config_, contents.data);
  contents.state = EntriesOf(engine_->states());
  contents.config = config_text;
  if (google::protobuf::TextFormat::PrintToString(engine_->run().plan, &contents.plan)) {
    return contents;
  }
  return absl::InternalError("the plan has no text form");
}

absl::StatusOr<SavedCheckpoint> Trainer::Save(const std::string& run_folder,
                                              const std::string& config_text) {
  std::unique_ptr<CheckpointSave> save;  // on rank 0
  ASSIGN_OR_RETURN(
      const std::string temporary, ranks_.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(CheckpointContents contents, ContentsToSave(config_text));
        SaveOptions options;
        options.keep = config_.keep_checkpoints();
        ASSIGN_OR_RETURN(save, CheckpointSave::Begin(run_folder, std::move(contents), options));
        return save->folder();
      }));
  const ShardReport report = WriteStates(*engine_, ranks_.size(), temporary);
  ASSIGN_OR_RETURN(const std::vector<std::string> messages,
                   ranks_.AllGather(report.SerializeAsString()));
  SavedCheckpoint saved;
  ASSIGN_OR_RETURN(saved.folder, ranks_.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
    std::vector<ShardReport> reports(messages.size());
    for (size_t rank = 0; rank < messages.size(); ++rank) {
      if (reports[rank].ParseFromString(messages[rank])) continue;
      return absl::InternalError(absl::StrCat("rank ", rank, " has sent a malformed report"));
    }
    ASSIGN_OR_RETURN(saved, save->Finish(reports));
    return saved.folder;
  }));
  return saved;
}

}  // namespace tessera
