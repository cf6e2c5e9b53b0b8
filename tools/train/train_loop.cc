#include "tools/train/train_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/cost/limits.h"
#include "core/posix/output_file.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/measure/trace.h"
#include "core/train/programs.h"
#include "tools/train/agree_on_data.h"
#include "tools/train/final_report.h"
#include "tools/train/flags/shell_word.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/report/process_memory.h"
#include "tools/train/sample.h"
#include "tools/train/setup/data_source.h"
#include "tools/train/setup/machine_rates.h"

namespace tessera {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool IsDue(int64_t step, int64_t every, int64_t last) {
  return step == last || (every > 0 && step % every == 0);
}

// Returns what the loss is a mean over: bytes of a text, or tokens; "" for other data.
std::string SymbolOf(const ConfiguredRun& configured) {
  if (configured.model->AsLanguageModel() == nullptr) return "";
  return TokensAreBytes(configured.config) ? "byte" : "token";
}

}  // namespace

std::string EvaluationText(const EvaluationResult& result) {
  const std::string loss = std::isnan(result.loss) ? "nan" : absl::StrFormat("%.4f", result.loss);
  std::string metrics;
  for (const auto& [name, mean] : result.metrics) {
    absl::StrAppendFormat(&metrics, ", %s %.4f", name, mean);
  }
  return absl::StrCat("eval_loss ", loss, metrics, " (", Counted(result.batches, "batch", "es"),
                      ", ", FormatSeconds(result.seconds), ")");
}

TrainLoop::TrainLoop(const ConfiguredRun& configured, const MachineRates& rates,
                     const LoopOptions& options, Engine* engine, Trainer* trainer)
    : configured_(configured),
      rates_(rates),
      options_(options),
      engine_(engine),
      trainer_(trainer),
      ranks_(*configured.ranks.ranks),
      stop_(configured.ranks.ranks),
      scale_(Scale()),
      first_step_(trainer->step() + 1),
      summary_(scale_.unit, SymbolOf(configured)),
      measured_(&engine->executor(kTrain), engine->options().rank.collectives),
      prices_(configured) {
  if (options.start_step < 0) return;
  saved_step_ = options.start_step;
  saved_folder_ = options.start_folder;
  saved_here_ = SameFolder(RunOf(saved_folder_).run, options.run_folder);
}

StepScale TrainLoop::Scale() const {
  const Program& program = engine_->executor(kTrain).program();
  StepScale scale;
  scale.total_steps = configured_.config.steps();
  const SampleUnit unit = configured_.unit();
  scale.unit = unit.unit;
  scale.units = configured_.config.batch() * unit.per_row;
  scale.best_seconds = WorkOf(program).model_flops / rates_.flops_per_second;
  scale.limit_seconds = LimitSeconds(program, rates_);
  scale.memory_bytes = engine_->run().arena_bytes();
  return scale;
}

std::string TrainLoop::ResumeCommand() const {
  return absl::StrCat(options_.command, " ",
                      ShellWord(absl::StrCat("--resume=", options_.run_folder)));
}

std::string TrainLoop::LastCheckpoint() const {
  if (saved_step_ < 0) return "there is no checkpoint yet";
  return absl::StrCat("the last checkpoint is of step ", saved_step_, ", ", saved_folder_);
}

absl::Status TrainLoop::NotFinite(const StepResult& result) const {
  const bool loss = !std::isfinite(result.loss);
  // All ranks have the same loss and norm. StrCat writes "nan" with no sign.
  return AgreedError(absl::OutOfRangeError(
      absl::StrCat(loss ? "the loss" : "the norm of the gradients", " of step ", result.step,
                   " is ", loss ? result.loss : result.grad_norm, ", so the step was not taken; ",
                   LastCheckpoint(), "; try a lower --lr, or --clip_norm=1")));
}

absl::Status TrainLoop::Save(Progress* progress) {
  const double begin = Now();
  absl::StatusOr<SavedCheckpoint> saved =
      trainer_->Save(options_.run_folder, configured_.config_text);
  if (!saved.ok()) {
    return WithMessage(saved.status(),
                       absl::StrCat("cannot save step ", trainer_->step(), ": ",
                                    saved.status().message(), "; ", LastCheckpoint()));
  }
  saved_step_ = trainer_->step();
  saved_folder_ = saved->folder;
  saved_here_ = true;
  for (const std::string& warning : saved->warnings) {
    // Some come after each save.
    if (warned_.insert(warning).second) progress->Line(absl::StrCat("note: ", warning));
  }
  progress->Line(absl::StrFormat("step %d: saved %s (%s, %s)", saved_step_, saved->folder,
                                 FormatBytes(saved->bytes), FormatSeconds(Now() - begin)));
  return absl::OkStatus();
}

// If stdout cannot be written any more, saves the run and returns the error.
absl::Status TrainLoop::CheckOutput(Progress* progress) {
  if (ranks_.size() == 1) output_status_ = OutputStatus();
  output_failed_ = output_failed_ || !output_status_.ok();
  if (!output_failed_) return absl::OkStatus();
  if (!(saved_here_ && saved_step_ == trainer_->step())) RETURN_IF_ERROR(Save(progress));
  return ranks_
      .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        return absl::Status(output_status_.code(),
                            absl::StrCat(output_status_.message(), "; ", LastCheckpoint()));
      })
      .status();
}

absl::Status TrainLoop::TraceStep(const StepResult& result, int64_t zero_ns, Progress& progress) {
  const Executor& executor = engine_->executor(kTrain);
  const StepTimes times = {executor.step_begin_ns(), executor.step_end_ns(), executor.times()};
  const bool alone = ranks_.size() == 1;
  const TracedRank rank = {ranks_.rank(), ranks_.size(), alone ? times.begin_ns : zero_ns};
  ASSIGN_OR_RETURN(std::vector<std::string> events,
                   ranks_.AllGather(TraceEvents(executor.program(), times, rank)));
  if (ranks_.is_first()) {
    const PricedCluster& priced = configured_.priced;
    if (priced.site.size() > 0) {
      events.push_back(PredictedTraceEvents(
          executor.program(),
          PredictStep(executor.program(), priced.cluster, priced.site, configured_.prices.get()),
          times, rank));
    }
    RETURN_IF_ERROR(WriteOutputFile(options_.trace, JoinTraces(events)));
  }
  progress.Line(absl::StrFormat(
      "step %d: traced to %s (%.2f%% of the step outside of kernels); open it in ui.perfetto.dev",
      result.step, options_.trace, 100 * ShareOutsideKernels(executor.program(), times)));
  return absl::OkStatus();
}

// Some steps are timed by instruction, for the summary. The first is slower than others.
bool TrainLoop::IsTimed(int64_t step) const {
  constexpr int64_t kEvery = 16;
  return (step - first_step_) % kEvery == 1 || first_step_ == configured_.config.steps();
}

absl::StatusOr<StepResult> TrainLoop::RunStep(Progress& progress) {
  // The first steps touch memory for the first time.
  const int64_t traced = std::min(first_step_ + 2, configured_.config.steps());
  const int64_t step = trainer_->step() + 1;
  const bool trace = !options_.trace.empty() && step == traced;
  const bool timed = trace || IsTimed(step);
  int64_t zero_ns = 0;
  if (trace) {
    // After the barrier all ranks set the origin of their traces.
    RETURN_IF_ERROR(ranks_.Barrier());
    zero_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  if (timed) measured_.BeforeStep();
  ASSIGN_OR_RETURN(StepResult result,
                   trainer_->Step(timed ? Timing::kInstructions : Timing::kNone));
  // A step that overflowed f16 was skipped on all ranks. It is repeated with the lower scale.
  while (!result.finite && std::isfinite(result.loss) && result.loss_scale > 1) {
    progress.Line(absl::StrFormat("step %d: gradients overflow f16; the loss scale is now %g",
                                  result.step, result.loss_scale));
    if (timed) measured_.BeforeStep();
    ASSIGN_OR_RETURN(result, trainer_->Step(timed ? Timing::kInstructions : Timing::kNone));
  }
  if (!result.finite) return NotFinite(result);
  summary_.AddStep(scale_.units, result.seconds);
  communication_.reset();
  if (timed) RecordTimes();
  RETURN_IF_ERROR(AgreeAfterStep(result, progress));
  progress.Step({result.step, result.loss, result.grad_norm, result.lr, result.seconds});
  if (trace) RETURN_IF_ERROR(TraceStep(result, zero_ns, progress));
  return result;
}

void TrainLoop::RecordTimes() {
  const Executor& executor = engine_->executor(kTrain);
  const Table<InstructionId, TimeSpan> times =
      ToTimeSpans(executor.times(), executor.step_begin_ns());
  summary_.AddTimes(executor.program(), times);
  prices_.AddStep(executor.program(), times);
  const StepCost cost = measured_.AfterStep();
  if (ranks_.size() == 1) return;
  communication_ = StepMetrics::Communication();
  for (const StepCost::Collective& collective : cost.collectives()) {
    communication_->bytes_sent += collective.bytes();
    communication_->seconds += collective.seconds();
    communication_->exposed_seconds += collective.exposed_seconds();
  }
}

absl::Status TrainLoop::AgreeAfterStep(const StepResult& result, Progress& progress) {
  StopRequest::Report mine;
  if (result.step < configured_.config.steps()) {
    data_status_ = trainer_->ReadBatch();
    mine.compares_data = trainer_->MustCompareData();
  }
  mine.measures = ranks_.is_first() && IsFasterThanItsLimit(result);
  if (ranks_.size() > 1 && ranks_.is_first()) output_status_ = OutputStatus();
  mine.output_failed = !output_status_.ok();
  ASSIGN_OR_RETURN(const StopRequest::Report agreed,
                   AgreeOnData(mine, *trainer_, ranks_, stop_, &data_status_));
  data_failed_ = agreed.data_failed;
  output_failed_ = agreed.output_failed;
  if (!agreed.measures) return absl::OkStatus();
  if (ranks_.is_first()) RETURN_IF_ERROR(MeasureAgain(result, progress));
  return ranks_.Barrier();  // the others do not wait for rank 0 in the next step
}

bool TrainLoop::IsFasterThanItsLimit(const StepResult& result) const {
  return result.seconds < scale_.limit_seconds && Now() >= measure_at_;
}

// A step that takes less time than its limit shows that the machine was slow when it was measured,
// because of other processes. It may still be, so the measurement is repeated a few times.
absl::Status TrainLoop::MeasureAgain(const StepResult& result, Progress& progress) {
  const double before = rates_.flops_per_second;
  earlier_peak_ = std::max(earlier_peak_, ResetPeakMemory());
  ASSIGN_OR_RETURN(rates_,
                   MeasureMatmulAgain(*configured_.backend,
                                      MatmulDType(engine_->executor(kTrain).program()), rates_));
  ResetPeakMemory();
  measure_at_ = Now() + measure_every_;
  measure_every_ *= 2;
  if (rates_.flops_per_second <= before) return absl::OkStatus();
  scale_ = Scale();
  progress.SetScale(scale_);
  progress.Line(
      absl::StrFormat("step %d: faster than its limit, so measured again: a matmul reaches %s",
                      result.step, FormatCount(rates_.flops_per_second, "FLOP/s")));
  return absl::OkStatus();
}

absl::StatusOr<EvaluationResult> TrainLoop::Evaluate() {
  return trainer_->Evaluate([this](const absl::Status& read) -> absl::StatusOr<bool> {
    data_status_ = read;
    ASSIGN_OR_RETURN(const StopRequest::Report agreed,
                     AgreeOnData({.compares_data = trainer_->MustCompareData()}, *trainer_, ranks_,
                                 stop_, &data_status_));
    data_failed_ = agreed.data_failed;
    return stop_.signal() != 0 || data_failed_;
  });
}

// Estimates the time by the last evaluation, or else by the time of the step and the work of both.
void TrainLoop::AnnounceEvaluation(const StepResult& result, Progress& progress) {
  constexpr double kNoticed = 1;  // seconds
  const Program& evaluate = engine_->executor(kEvaluate).program();
  if (!(seconds_of_batch_ > 0)) {
    seconds_of_batch_ = result.seconds * LimitSeconds(evaluate, rates_) / scale_.limit_seconds;
  }
  const int64_t batches = trainer_->EvaluationBatches();
  const double seconds = static_cast<double>(batches) * seconds_of_batch_;
  if (seconds < kNoticed) return;
  progress.Line(absl::StrCat("step ", result.step, ": evaluating ", Counted(batches, "batch", "es"),
                             ", about ", FormatSeconds(seconds),
                             "; --set=eval_batches=N sets how many"));
}

absl::Status TrainLoop::AfterStep(const StepResult& result, Progress& progress,
                                  MetricsLog* metrics) {
  const RunConfig& config = configured_.config;
  StepMetrics line;
  line.step = result.step;
  line.loss = result.loss;
  line.grad_norm = result.grad_norm;
  line.lr = result.lr;
  line.step_seconds = result.seconds;
  line.unit = scale_.unit;
  line.units_per_second = static_cast<double>(scale_.units) / result.seconds;
  line.mfu = scale_.best_seconds / result.seconds;
  line.model_flops_per_second = line.mfu * rates_.flops_per_second;
  line.peak_bytes = scale_.memory_bytes;
  line.ranks = ranks_.size();
  line.communication = communication_;
  if (!data_failed_ && IsDue(result.step, config.eval_every(), config.steps())) {
    AnnounceEvaluation(result, progress);
    ASSIGN_OR_RETURN(const EvaluationResult evaluated, Evaluate());
    if (evaluated.batches > 0) {
      seconds_of_batch_ = evaluated.seconds / static_cast<double>(evaluated.batches);
    }
    evaluation_stopped_ = !evaluated.complete;
    if (evaluated.complete) {
      line.eval_loss = evaluated.loss;
      line.eval_metrics = evaluated.metrics;
      summary_.AddEvaluation(result.step, evaluated.loss);
      progress.Line(absl::StrCat("step ", result.step, ": ", EvaluationText(evaluated)));
    }
  }
  if (metrics != nullptr) RETURN_IF_ERROR(metrics->Append(line));
  if (IsDue(result.step, config.save_every(), config.steps())) RETURN_IF_ERROR(Save(&progress));
  return absl::OkStatus();
}

// Returns the agreed error of data that a rank could not read. Call it after the run was saved.
absl::Status TrainLoop::DataError() {
  const absl::Status agreed = ranks_.Agree(data_status_);
  const bool changed = absl::IsFailedPrecondition(agreed);
  return WithMessage(
      agreed,
      absl::StrCat(agreed.message(), "; ", LastCheckpoint(),
                   changed ? ": resume with the former data, or with --allow_changed_data" : ""));
}

absl::Status TrainLoop::RunSteps(Progress& progress, MetricsLog* metrics) {
  while (trainer_->step() < configured_.config.steps() && stop_.signal() == 0 && !data_failed_) {
    ASSIGN_OR_RETURN(const StepResult result, RunStep(progress));
    RETURN_IF_ERROR(AfterStep(result, progress, metrics));
    if (stop_.signal() == 0) RETURN_IF_ERROR(CheckOutput(&progress));
  }
  // The last step before an interrupt, or before data that cannot be read, is saved, unless it is
  // saved already.
  const bool saved = saved_here_ && saved_step_ == trainer_->step();
  if ((stop_.signal() != 0 || data_failed_) && !saved) RETURN_IF_ERROR(Save(&progress));
  return data_failed_ ? DataError() : absl::OkStatus();
}

absl::StatusOr<int> TrainLoop::Run() {
  const int64_t steps = configured_.config.steps();
  if (trainer_->step() < steps) {
    const absl::Status read = trainer_->ReadBatch();
    RETURN_IF_ERROR(ranks_.Agree(read.ok() ? trainer_->CompareData() : read));
  }
  const double begin = Now();
  std::unique_ptr<MetricsLog> metrics;  // null on other ranks than rank 0
  if (ranks_.is_first()) {
    ASSIGN_OR_RETURN(metrics,
                     MetricsLog::Open(options_.folder->folder(), kMetricsName, trainer_->step()));
    for (const auto& [step, loss] : metrics->earlier_evaluations()) {
      summary_.AddEvaluation(step, loss);
    }
  }
  {
    ProgressOptions options;
    options.terminal = IsTerminal();
    options.width = TerminalWidth;
    options.first_step = first_step_;
    options.log_every = options_.log_every;
    Progress progress(Output(), options, scale_, Now);
    RETURN_IF_ERROR(RunSteps(progress, metrics.get()));
  }
  if (first_step_ <= trainer_->step()) {
    PrintText(summary_.Text(Now() - begin));
  }
  if (trainer_->step() < steps) {
    PrintLine(absl::StrFormat("stopped after step %d of %d; go on with\n  %s", trainer_->step(),
                              steps, ResumeCommand()));
    return 128 + stop_.signal();
  }
  if (evaluation_stopped_) {
    PrintLine(
        absl::StrFormat("stopped in the evaluation after step %d, the last; evaluate it with\n  %s "
                        "--mode=evaluate",
                        steps, ResumeCommand()));
    return 128 + stop_.signal();
  }
  ASSIGN_OR_RETURN(const ComparedCost cost,
                   CompareCost(options_.estimated, measured_, options_.plugin, ranks_));
  PrintText(cost.table);
  RETURN_IF_ERROR(prices_.Keep());
  ASSIGN_OR_RETURN(const std::string memory, MemoryLine(*engine_, earlier_peak_, ranks_));
  PrintText(memory);
  if (engine_->HasProgram(kGenerate) && stop_.signal() == 0) {
    RETURN_IF_ERROR(PrintSample(configured_, *engine_, stop_));
  }
  PrintLine(absl::StrCat("run folder: ", options_.run_folder));
  RETURN_IF_ERROR(cost.as_estimated);
  return stop_.signal() == 0 ? 0 : 128 + stop_.signal();
}

}  // namespace tessera
