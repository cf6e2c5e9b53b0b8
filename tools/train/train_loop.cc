#include "tools/train/train_loop.h"

#include <unistd.h>

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
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "core/train/trace.h"
#include "tools/train/data_source.h"
#include "tools/train/interrupt.h"
#include "tools/train/machine_rates.h"
#include "tools/train/process_memory.h"
#include "tools/train/sample.h"
#include "tools/train/shell_word.h"
#include "tools/train/standard_output.h"

namespace tessera {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool Due(int64_t step, int64_t every, int64_t last) {
  return step == last || (every > 0 && step % every == 0);
}

}  // namespace

std::string EvaluationText(const EvaluationResult& result) {
  const std::string loss = std::isnan(result.loss) ? "nan" : absl::StrFormat("%.4f", result.loss);
  return absl::StrCat("eval_loss ", loss, " (", Counted(result.batches, "batch", "es"), ", ",
                      FormatSeconds(result.seconds), ")");
}

TrainLoop::TrainLoop(const Setup& setup, const MachineRates& rates, const LoopOptions& options,
                     Engine* engine, Trainer* trainer, RunFolder* folder)
    : setup_(setup),
      rates_(rates),
      options_(options),
      engine_(engine),
      trainer_(trainer),
      folder_(folder),
      scale_(Scale()),
      first_step_(trainer->step() + 1),
      summary_(setup.config.data().file() == kSyntheticData ? "token" : "byte") {
  if (options.start_step < 0) return;
  saved_step_ = options.start_step;
  saved_folder_ = options.start_folder;
  saved_here_ = SameFolder(RunOf(saved_folder_).run, folder->path());
}

StepScale TrainLoop::Scale() const {
  const Program& program = engine_->executor(kTrain).program();
  StepScale scale;
  scale.total_steps = setup_.config.steps();
  scale.tokens = setup_.config.batch() * setup_.config.sequence();
  scale.best_seconds = WorkOf(program).model_flops / rates_.flops_per_second;
  scale.limit_seconds = LimitSeconds(program, rates_);
  scale.memory_bytes = engine_->run().arena_bytes();
  return scale;
}

std::string TrainLoop::ResumeCommand() const {
  return absl::StrCat(options_.command, " ", ShellWord(absl::StrCat("--resume=", folder_->path())));
}

std::string TrainLoop::LastCheckpoint() const {
  if (saved_step_ < 0) return "there is no checkpoint yet";
  return absl::StrCat("the last checkpoint is of step ", saved_step_, ", ", saved_folder_);
}

absl::Status TrainLoop::NotFinite(const StepResult& result) const {
  const bool loss = !std::isfinite(result.loss);
  // StrCat writes "nan" with no sign.
  return absl::OutOfRangeError(
      absl::StrCat(loss ? "the loss" : "the norm of the gradients", " of step ", result.step,
                   " is ", loss ? result.loss : result.grad_norm, ", so the step was not taken; ",
                   LastCheckpoint(), "; try a lower --lr, or --clip_norm=1"));
}

absl::Status TrainLoop::Save(Progress* progress) {
  const double begin = Now();
  absl::StatusOr<SavedCheckpoint> saved = trainer_->Save(folder_->path(), setup_.config_text);
  if (!saved.ok()) {
    return absl::Status(saved.status().code(),
                        absl::StrCat("cannot save step ", trainer_->step(), ": ",
                                     saved.status().message(), "; ", LastCheckpoint()));
  }
  saved_step_ = trainer_->step();
  saved_folder_ = saved->folder;
  saved_here_ = true;
  for (const std::string& warning : saved->warnings) {
    progress->Line(absl::StrCat("note: ", warning));
  }
  progress->Line(absl::StrFormat("step %d: saved %s (%s, %s)", saved_step_, saved->folder,
                                 FormatBytes(saved->bytes), FormatSeconds(Now() - begin)));
  return absl::OkStatus();
}

// If stdout cannot be written any more, saves the run and returns the error.
absl::Status TrainLoop::CheckOutput(Progress* progress) {
  const absl::Status status = OutputStatus();
  if (status.ok()) return status;
  if (!(saved_here_ && saved_step_ == trainer_->step())) RETURN_IF_ERROR(Save(progress));
  return absl::Status(status.code(), absl::StrCat(status.message(), "; ", LastCheckpoint()));
}

absl::Status TrainLoop::TraceStep(const StepResult& result, Progress& progress) {
  const Executor& executor = engine_->executor(kTrain);
  const StepTimes times = {executor.step_begin_ns(), executor.step_end_ns(), executor.times()};
  RETURN_IF_ERROR(WriteTrace(executor.program(), times, options_.trace));
  progress.Line(absl::StrFormat(
      "step %d: traced to %s (%.2f%% of the step outside of kernels); open it in ui.perfetto.dev",
      result.step, options_.trace, 100 * ShareOutsideKernels(times)));
  return absl::OkStatus();
}

// Some steps are timed by instruction, for the summary. The first is slower than others.
bool TrainLoop::IsTimed(int64_t step) const {
  constexpr int64_t kEvery = 16;
  return (step - first_step_) % kEvery == 1 || first_step_ == setup_.config.steps();
}

absl::StatusOr<StepResult> TrainLoop::TakeStep(Progress& progress) {
  // The first steps touch memory for the first time.
  const int64_t traced = std::min(first_step_ + 2, setup_.config.steps());
  const int64_t step = trainer_->step() + 1;
  const bool trace = !options_.trace.empty() && step == traced;
  const bool timed = trace || IsTimed(step);
  ASSIGN_OR_RETURN(const StepResult result,
                   trainer_->Step(timed ? Timing::kInstructions : Timing::kNone));
  if (!result.finite) return NotFinite(result);
  summary_.AddStep(scale_.tokens, result.seconds);
  if (timed) {
    const Executor& executor = engine_->executor(kTrain);
    summary_.AddTimes(executor.program(), executor.times());
  }
  RETURN_IF_ERROR(MeasureAgain(result, progress));
  progress.Step({result.step, result.loss, result.grad_norm, result.lr, result.seconds});
  if (trace) RETURN_IF_ERROR(TraceStep(result, progress));
  return result;
}

// A step that takes less time than its limit shows that the machine was slow when it was measured,
// because of other processes. It may still be, so the measurement is repeated a few times.
absl::Status TrainLoop::MeasureAgain(const StepResult& result, Progress& progress) {
  if (result.seconds >= scale_.limit_seconds || Now() < measure_at_) return absl::OkStatus();
  const double before = rates_.flops_per_second;
  earlier_peak_ = std::max(earlier_peak_, ResetPeakMemory());
  ASSIGN_OR_RETURN(rates_, MeasureMatmulAgain(*setup_.backend, rates_));
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

absl::Status TrainLoop::AfterStep(const StepResult& result, Progress& progress,
                                  MetricsLog& metrics) {
  const RunConfig& config = setup_.config;
  StepMetrics line;
  line.step = result.step;
  line.loss = result.loss;
  line.grad_norm = result.grad_norm;
  line.lr = result.lr;
  line.step_seconds = result.seconds;
  line.tokens_per_second = static_cast<double>(scale_.tokens) / result.seconds;
  line.mfu = scale_.best_seconds / result.seconds;
  line.peak_bytes = scale_.memory_bytes;
  if (Due(result.step, config.eval_every(), config.steps())) {
    ASSIGN_OR_RETURN(const EvaluationResult evaluated,
                     trainer_->Evaluate([] { return Interrupted() != 0; }));
    evaluation_stopped_ = !evaluated.complete;
    if (evaluated.complete) {
      line.eval_loss = evaluated.loss;
      summary_.AddEvaluation(result.step, evaluated.loss);
      progress.Line(absl::StrCat("step ", result.step, ": ", EvaluationText(evaluated)));
    }
  }
  RETURN_IF_ERROR(metrics.Append(line));
  if (Due(result.step, config.save_every(), config.steps())) RETURN_IF_ERROR(Save(&progress));
  return absl::OkStatus();
}

absl::Status TrainLoop::RunSteps(Progress& progress, MetricsLog& metrics) {
  while (trainer_->step() < setup_.config.steps() && !Interrupted()) {
    ASSIGN_OR_RETURN(const StepResult result, TakeStep(progress));
    RETURN_IF_ERROR(AfterStep(result, progress, metrics));
    if (!Interrupted()) RETURN_IF_ERROR(CheckOutput(&progress));
  }
  // The step of an interrupt is saved, unless it is saved already.
  const bool saved = saved_here_ && saved_step_ == trainer_->step();
  if (Interrupted() && !saved) RETURN_IF_ERROR(Save(&progress));
  return absl::OkStatus();
}

absl::StatusOr<int> TrainLoop::Run() {
  const int64_t steps = setup_.config.steps();
  const double begin = Now();
  ASSIGN_OR_RETURN(const std::unique_ptr<MetricsLog> metrics,
                   MetricsLog::Open(folder_->metrics_path(), trainer_->step()));
  {
    ProgressOptions options;
    options.terminal = isatty(STDOUT_FILENO) != 0;
    options.width = TerminalWidth;
    options.first_step = first_step_;
    options.log_every = options_.log_every;
    Progress progress(stdout, options, scale_, Now);
    RETURN_IF_ERROR(RunSteps(progress, *metrics));
  }
  if (trainer_->step() < steps) {
    absl::PrintF("stopped after step %d of %d; go on with\n  %s\n", trainer_->step(), steps,
                 ResumeCommand());
    std::fflush(stdout);
    return 128 + Interrupted();
  }
  if (evaluation_stopped_) {
    absl::PrintF(
        "stopped in the evaluation after step %d, the last; evaluate it with\n  %s "
        "--mode=evaluate\n",
        steps, ResumeCommand());
    std::fflush(stdout);
    return 128 + Interrupted();
  }
  absl::PrintF("%s", summary_.Text(Now() - begin));
  ResidentMemory resident = ReadResidentMemory();
  resident.peak = std::max(resident.peak, earlier_peak_);
  absl::PrintF("%s\n", ResidentMemoryLine(resident, engine_->ResidentArenaBytes()));
  if (engine_->HasProgram(kGenerate) && !Interrupted()) {
    RETURN_IF_ERROR(PrintSample(setup_, *engine_));
  }
  absl::PrintF("run folder: %s\n", folder_->path());
  std::fflush(stdout);
  return 0;
}

}  // namespace tessera
