#include "tools/train/setup/open_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/config/config_editor.h"
#include "core/train/data/data_position.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/train/setup/data_source.h"

namespace tessera {
namespace {

// Returns where the run of the checkpoint stood in its data when it was saved. `saved` is its
// configuration.
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

// Compares the data with those of the checkpoint. Changed data are an error for a run that trains
// on, and a note with --allow_changed_data or for an evaluation.
absl::Status CheckData(const CommandLine& line, const RunConfig& config,
                       const Checkpoint& checkpoint, const Dataset& dataset,
                       std::vector<std::string>* notes) {
  const std::string& before = checkpoint.data();
  const std::string now = dataset.Fingerprint();
  if (before == now) return absl::OkStatus();
  if (before.empty()) {
    const std::string& file = config.data().file();
    notes->push_back(absl::StrCat(
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
  notes->push_back(message);
  return absl::OkStatus();
}

// Returns the row of the data at which a resumed run goes on. A note says so if that is not where
// it stopped.
absl::StatusOr<int64_t> RowToResumeAt(const CommandLine& line, const ModelDefinition& definition,
                                      const EffectiveConfig& effective,
                                      const Checkpoint& checkpoint, const Dataset& dataset,
                                      std::vector<std::string>* notes) {
  const RunConfig& config = effective.config;
  RETURN_IF_ERROR(CheckData(line, config, checkpoint, dataset, notes));
  if (line.mode != Mode::kTrain) return 0;
  ASSIGN_OR_RETURN(const ConfigEditor saved, ConfigOf(checkpoint, definition));
  ASSIGN_OR_RETURN(const DataPosition before, PositionOf(checkpoint, saved.config()));
  if (!RowsAreSequences(*effective.model)) return before.rows;
  const int64_t sequence = config.sequence();
  const int64_t row = PositionFor(before, sequence, dataset).rows;
  const int64_t epoch = dataset.RowsPerEpoch(sequence);
  if (before.sequence != sequence && epoch > 0 && before.rows > 0) {
    notes->push_back(absl::StrCat(
        "rows of the data have ", Counted(sequence, "token"), " now, not ", before.sequence,
        ", so training goes on at the next epoch: number ", row / epoch + 1));
  }
  return row;
}

}  // namespace

absl::StatusOr<OpenedData> OpenData(const CommandLine& line, const ModelDefinition& definition,
                                    const Checkpoint* checkpoint, const EffectiveConfig& effective,
                                    UnreadData unread, Ranks& ranks,
                                    std::vector<std::string>* notes) {
  OpenedData data;
  const bool plans_new_run = line.plan_only && checkpoint == nullptr && line.epochs == 0;
  if (line.mode == Mode::kSample || plans_new_run) return data;
  const RunConfig& config = effective.config;
  const Model& model = *effective.model;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = line.mode == Mode::kPredict
                                                         ? OpenRowsToPredict(config, model)
                                                         : OpenDataset(std::move(unread), ranks);
  RETURN_IF_ERROR(ranks.Agree(dataset.status()));
  data.dataset = *std::move(dataset);
  if (checkpoint != nullptr && line.mode != Mode::kPredict) {
    const absl::StatusOr<int64_t> row =
        RowToResumeAt(line, definition, effective, *checkpoint, *data.dataset, notes);
    RETURN_IF_ERROR(ranks.Agree(row.status()));
    data.first_row = *row;
  }
  RETURN_IF_ERROR(CompareRanks(ranks, {{"the data", data.dataset->Fingerprint()}}, kSameSetups));
  return data;
}

absl::StatusOr<int64_t> StepsOfEpochs(int64_t epochs, const RunConfig& config,
                                      const OpenedData& data, const Checkpoint* checkpoint) {
  if (config.search_batch()) {
    return absl::InvalidArgumentError(
        "--epochs needs a batch, which --batch=search leaves open: --steps=N is the length of such "
        "a run");
  }
  const int64_t rows = data.dataset->RowsPerEpoch(config.sequence());
  if (rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--epochs: there are no passes over ", config.data().file(),
                     " data, which have no end: --steps=N is the length of the run"));
  }
  if (epochs > kMaxRows / rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("--epochs is ", epochs, ": it must be at most ", kMaxRows / rows));
  }
  const int64_t left = std::max<int64_t>(0, epochs * rows - data.first_row);
  const int64_t steps = left / config.batch() + (left % config.batch() > 0 ? 1 : 0);
  return std::max<int64_t>(1, steps + (checkpoint == nullptr ? 0 : checkpoint->step()));
}

}  // namespace tessera
