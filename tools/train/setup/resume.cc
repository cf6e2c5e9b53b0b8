#include "tools/train/setup/resume.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/data/data_position.h"
#include "core/train/state/load_state.h"
#include "tools/train/flags/run_config.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/compile_setup.h"

namespace tessera {
namespace {

// Compares the data with that of the checkpoint. Changed data is an error for a run that trains on,
// and a note with --allow_changed_data or for an evaluation.
absl::Status CheckData(const CommandLine& line, Setup* setup) {
  const std::string& before = setup->checkpoint->data();
  const std::string now = setup->dataset->Fingerprint();
  if (before == now) return absl::OkStatus();
  if (before.empty()) {
    const std::string& file = setup->config.data().file();
    setup->notes.push_back(absl::StrCat(
        "the checkpoint is of an older version and holds no fingerprint of its data: whether it "
        "was trained on ",
        file.empty() ? "the text that comes with the program" : file,
        ", which is read now, is not known"));
    return absl::OkStatus();
  }
  const std::string message = absl::StrCat(
      "the data is not what the checkpoint was trained on: that was ", before, ", this is ", now);
  if (line.mode == Mode::kTrain && !line.plan_only && !line.allow_changed_data) {
    return absl::FailedPreconditionError(
        absl::StrCat(message, "; go on with the old data, or with --allow_changed_data"));
  }
  setup->notes.push_back(message);
  return absl::OkStatus();
}

// Returns where the run of the checkpoint stood in its data. `saved` is its configuration.
absl::StatusOr<DataPosition> PositionOf(const Checkpoint& checkpoint, const RunConfig& saved) {
  if (checkpoint.sequence() > 0) return DataPosition{checkpoint.rows(), checkpoint.sequence()};
  const int64_t batch = saved.batch();
  if (batch >= 1 && checkpoint.batches() <= kMaxRows / batch && saved.sequence() >= 1) {
    return DataPosition{checkpoint.batches() * batch, saved.sequence()};
  }
  return absl::DataLossError(absl::StrCat(checkpoint.folder(), ": a position after ",
                                          checkpoint.batches(), " batches of ", batch, " rows of ",
                                          saved.sequence(), " tokens is not possible"));
}

// Sets the row at which training goes on, and says if that is not where it stopped.
absl::Status FindPosition(Setup* setup) {
  const Checkpoint& checkpoint = *setup->checkpoint;
  ASSIGN_OR_RETURN(const ConfigEditor saved,
                   SavedConfig(*setup->definition, checkpoint.config(),
                               absl::StrCat(checkpoint.folder(), "/", kConfigFile)));
  ASSIGN_OR_RETURN(const DataPosition before, PositionOf(checkpoint, saved.config()));
  const int64_t sequence = setup->config.sequence();
  setup->first_row = PositionFor(before, sequence, *setup->dataset).rows;
  const int64_t epoch = setup->dataset->RowsPerEpoch(sequence);
  if (before.sequence != sequence && epoch > 0 && before.rows > 0) {
    setup->notes.push_back(absl::StrCat(
        "rows of the data have ", Counted(sequence, "token"), " now, not ", before.sequence,
        ", so training goes on at the next epoch: number ", setup->first_row / epoch + 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ChooseCheckpoint(const CommandLine& line, Setup* setup) {
  if (line.resume.empty()) return absl::OkStatus();
  Ranks& ranks = *setup->ranks.ranks;
  const std::string path = UserPath(line.resume);
  ASSIGN_OR_RETURN(const std::string folder, ranks.FromFirst([&]() -> absl::StatusOr<std::string> {
    absl::StatusOr<OpenedCheckpoint> opened = OpenCheckpoint(path);
    if (!opened.ok() && HoldsRunWithoutCheckpoint(RunOf(path).run)) {
      const std::string run = RunOf(path).run;
      return absl::NotFoundError(absl::StrCat(
          run,
          " holds a run that was stopped before its first checkpoint: start it again with --out=",
          run));
    }
    RETURN_IF_ERROR(opened.status());
    for (const std::string& skipped : opened->skipped) {
      setup->notes.push_back(absl::StrCat("passed over: ", skipped));
    }
    setup->damaged = std::move(opened->damaged);
    setup->checkpoint = std::move(opened->checkpoint);
    return setup->checkpoint->folder();
  }));
  if (ranks.is_first()) return ranks.Agree(absl::OkStatus());
  OpenOptions options;
  options.verify_checksums = false;  // rank 0 has compared them
  absl::StatusOr<std::unique_ptr<Checkpoint>> opened = Checkpoint::Open(folder, options);
  RETURN_IF_ERROR(ranks.Agree(opened.status()));
  setup->checkpoint = *std::move(opened);
  return absl::OkStatus();
}

absl::Status CheckResumedState(const CommandLine& line, const Setup& setup) {
  const Extra extra =
      PartsOf(line.mode) == RunParts::kAll ? Extra::kRefuse : Extra::kLeaveOptimizer;
  absl::Status status = CheckFits(*setup.checkpoint, *setup.model, StatesOf(setup.compiled), extra);
  if (status.ok() || setup.shape_changes.empty()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("a run cannot be resumed with another shape of its state (",
                   absl::StrJoin(setup.shape_changes, ", "), "): ", status.message()));
}

absl::Status ResumeInData(const CommandLine& line, Setup* setup) {
  RETURN_IF_ERROR(CheckData(line, setup));
  return line.mode == Mode::kTrain ? FindPosition(setup) : absl::OkStatus();
}

}  // namespace tessera
