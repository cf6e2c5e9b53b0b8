#include "tools/train/setup/data_source.h"

#include <string>
#include <utility>
#include <vector>

#include "core/status/status_macros.h"
#include "core/train/data/check_once.h"
#include "core/train/data/readers/reader_list.h"

namespace tessera {
namespace {

DataRequest RequestOf(const RunConfig& config, std::vector<BatchField> read) {
  return {.file = config.data().file(),
          .read = std::move(read),
          .sequence = config.sequence(),
          .batch = config.batch(),
          .seed = config.seed()};
}

}  // namespace

absl::StatusOr<UnreadData> OpenUnread(const RunConfig& config, const Model& model) {
  return OpenUnreadData(RequestOf(config, model.BatchFields(config.sequence())));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(UnreadData data, Ranks& ranks) {
  // Also without a file: other ranks, by mistake, may have one.
  ASSIGN_OR_RETURN(std::string checked, CheckOncePerHost(data.file.get(), data.check, ranks));
  return data.read(std::move(data.file), std::move(checked));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenRowsToPredict(const RunConfig& config,
                                                           const Model& model) {
  return OpenRowsToPredict(RequestOf(config, model.PredictionFields(config.sequence())));
}

bool TokensAreBytes(const RunConfig& config) {
  return ReaderOf(config.data().file()).tokens_are_bytes;
}

bool RowsAreSequences(const Model& model) { return model.Unit(1).per_row != model.Unit(2).per_row; }

}  // namespace tessera
