#include "tools/train/flags/check_combination.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/environment.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr double kMostStrategySeconds = 1e6;

absl::Status CheckRanks(const CommandLine& line) {
  if (line.ranks > 0 && !line.plan_only) {
    return absl::InvalidArgumentError(
        "--ranks=N is for --plan_only, which starts no ranks; --nproc=N starts ranks");
  }
  if (line.ranks > 0 && line.launch.nproc > 0) {
    return absl::InvalidArgumentError(
        "--ranks and --nproc exclude each other: with --plan_only both are the number of ranks");
  }
  return absl::OkStatus();
}

// --backend=fake runs all ranks in this process.
absl::Status CheckThreads(const CommandLine& line) {
  if (!RanksAreThreads(line) || line.plan_only) return absl::OkStatus();
  if (line.launch.nproc == 0) {
    return absl::InvalidArgumentError(
        "--backend=fake runs ranks as threads of this process: --nproc=N says how many");
  }
  if (line.launch.max_restarts > 0) {
    return absl::InvalidArgumentError(
        "--max_restarts is for ranks that are processes; those of --backend=fake are threads");
  }
  ASSIGN_OR_RETURN(const comm::RankEnvironment environment, comm::ReadRankEnvironment(""));
  if (environment.size == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--backend=fake runs ranks as threads of one process, and this process is rank ",
                   environment.rank, " of a job that ", environment.launcher, " has started"));
}

absl::Status CheckStrategy(const CommandLine& line) {
  if (!line.strategy.empty() && !line.plan.empty()) {
    return absl::InvalidArgumentError(
        "--strategy and --plan exclude each other: a strategy makes the Plan");
  }
  if (!line.strategy_options.empty() && line.strategy.empty()) {
    return absl::InvalidArgumentError(
        "--strategy_options are those of a strategy: name it with --strategy=NAME");
  }
  if (!(line.strategy_seconds > 0 && line.strategy_seconds <= kMostStrategySeconds)) {
    return absl::InvalidArgumentError(absl::StrCat("--strategy_seconds is ", line.strategy_seconds,
                                                   ": it must be above 0 and at most ",
                                                   kMostStrategySeconds));
  }
  return absl::OkStatus();
}

absl::Status CheckEpochs(const CommandLine& line) {
  if (line.epochs == 0) return absl::OkStatus();
  if (SetsField(line, "steps")) {
    return absl::InvalidArgumentError(
        "--steps and --epochs exclude each other: both are the length of the run");
  }
  if (line.mode == Mode::kTrain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--epochs is the length of a run that trains, and --mode is ",
                   ModeName(line.mode), ": leave it out"));
}

absl::Status CheckPredictions(const CommandLine& line) {
  const bool predicts = line.mode == Mode::kPredict;
  if (!line.predictions.empty() && line.mode != Mode::kEvaluate && !predicts) {
    return absl::InvalidArgumentError(
        "--predictions=FILE is for --mode=evaluate and --mode=predict, which write what the model "
        "predicts");
  }
  if (!predicts || SetsField(line, "data.file")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--mode=predict needs --data=FILE: the rows of which the model predicts something");
}

}  // namespace

absl::Status CheckCombination(const CommandLine& line) {
  RETURN_IF_ERROR(CheckRanks(line));
  RETURN_IF_ERROR(CheckStrategy(line));
  RETURN_IF_ERROR(CheckThreads(line));
  if (line.requeue && (line.out.empty() || !line.resume.empty() || line.mode != Mode::kTrain)) {
    return absl::InvalidArgumentError(
        "--requeue resumes or starts the run in --out=DIR: give that, and neither --resume nor "
        "--mode");
  }
  if (line.mode != Mode::kTrain && line.resume.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--mode=", ModeName(line.mode), " needs --resume=DIR: the run whose model is to be used"));
  }
  RETURN_IF_ERROR(CheckEpochs(line));
  RETURN_IF_ERROR(CheckPredictions(line));
  if (line.kernels != "measured" && line.kernels != "default") {
    return absl::InvalidArgumentError(
        absl::StrCat("--kernels is '", line.kernels, "': it must be measured or default"));
  }
  if (line.log_every < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--log_every is ", line.log_every, ": it must be 0 or more"));
  }
  if (!line.resume.empty() && !line.preset.empty()) {
    return absl::InvalidArgumentError(
        "--preset and --resume exclude each other: a run that is resumed has its configuration");
  }
  return absl::OkStatus();
}

}  // namespace tessera
