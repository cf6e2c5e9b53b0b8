#include "tools/train/use_model.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/posix/replaced_file.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/trainer.h"
#include "tools/train/agree_on_data.h"
#include "tools/train/rank/standard_output.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/row_table.h"
#include "tools/train/run_engine.h"
#include "tools/train/sample.h"
#include "tools/train/setup/memory_checks.h"
#include "tools/train/train_loop.h"

namespace tessera {
namespace {

// Runs a mode on the engine of this rank.
class ModelUse {
 public:
  ModelUse(const CommandLine& line, const ConfiguredRun& configured)
      : line_(line),
        configured_(configured),
        ranks_(*configured.ranks.ranks),
        stop_(&ranks_),
        table_(configured.dataset.get()) {}

  absl::StatusOr<int> Run(Engine& engine, Trainer& trainer) {
    RETURN_IF_ERROR(LoadCheckpoint(configured_, Extra::kLeaveOptimizer, &trainer));
    if (line_.mode == Mode::kSample) {
      RETURN_IF_ERROR(PrintSample(configured_, engine, stop_));
    } else if (line_.mode == Mode::kPredict) {
      RETURN_IF_ERROR(Predict(trainer));
    } else {
      RETURN_IF_ERROR(Evaluate(trainer));
    }
    return stop_.signal() != 0 ? 128 + stop_.signal() : 0;
  }

 private:
  // Returns the function that agrees with the other ranks on each batch.
  StopEvaluation Stopping(Trainer& trainer) {
    return [this, &trainer](const absl::Status& read) -> absl::StatusOr<bool> {
      absl::Status data = read;
      ASSIGN_OR_RETURN(
          const StopRequest::Report agreed,
          AgreeOnData({.compares_data = trainer.MustCompareData()}, trainer, ranks_, stop_, &data));
      if (agreed.data_failed) RETURN_IF_ERROR(ranks_.Agree(data));
      return stop_.signal() != 0;
    };
  }

  // Returns the function that adds rows to the table of rank 0.
  ReceiveRows Adding() {
    return [this](const PredictedRows& rows) {
      return ranks_.is_first() ? table_.Add(rows) : absl::OkStatus();
    };
  }

  absl::Status Evaluate(Trainer& trainer) {
    const bool has_table = !line_.predictions.empty();
    ASSIGN_OR_RETURN(const EvaluationResult result,
                     trainer.Evaluate(Stopping(trainer), has_table ? Adding() : nullptr));
    if (!result.complete) return absl::OkStatus();
    PrintLine(absl::StrCat("step ", trainer.step(), ": ", EvaluationText(result)));
    return has_table ? WriteTable() : absl::OkStatus();
  }

  absl::Status Predict(Trainer& trainer) {
    ASSIGN_OR_RETURN(const bool complete, trainer.Predict(Stopping(trainer), Adding()));
    return complete ? WriteTable() : absl::OkStatus();
  }

  absl::Status WriteTable() {
    if (line_.predictions.empty()) {
      if (ranks_.is_first()) std::fwrite(table_.text().data(), 1, table_.text().size(), Output());
      return ranks_.Agree(OutputStatus());
    }
    RETURN_IF_ERROR(ranks_
                        .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                          ASSIGN_OR_RETURN(const std::unique_ptr<ReplacedFile> file,
                                           ReplacedFile::Begin(UserPath(line_.predictions)));
                          RETURN_IF_ERROR(file->Finish(table_.text()));
                          return "";
                        })
                        .status());
    PrintLine(absl::StrCat("predictions of ", Counted(table_.rows(), configured_.unit().row), ": ",
                           UserPath(line_.predictions)));
    return absl::OkStatus();
  }

  const CommandLine& line_;
  const ConfiguredRun& configured_;
  Ranks& ranks_;
  StopRequest stop_;
  RowTable table_;  // on rank 0
};

}  // namespace

bool PrintsRows(const CommandLine& line) {
  return line.mode == Mode::kPredict && line.predictions.empty();
}

absl::Status CheckPredictionsFile(const CommandLine& line, Ranks& ranks) {
  if (line.predictions.empty()) return absl::OkStatus();
  return ranks
      .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        RETURN_IF_ERROR(ReplacedFile::Begin(UserPath(line.predictions)).status());
        return "";
      })
      .status();
}

absl::StatusOr<int> UseModel(const CommandLine& line, const ConfiguredRun& configured,
                             CompiledRun compiled) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lacks,
                   CheckMemoryOfHosts(compiled.arena_bytes(), configured.ranks));
  PrintNotes(lacks);
  ModelUse use(line, configured);
  return WithEngine(configured, std::move(compiled),
                    [&use](Engine& engine, Trainer& trainer) { return use.Run(engine, trainer); });
}

}  // namespace tessera
