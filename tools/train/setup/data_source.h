// The data of a configuration.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/data/readers/reader.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// Opens config.data.file, and reads at most its beginning. InvalidArgument if the data are not what
// the model reads.
absl::StatusOr<UnreadData> OpenUnread(const RunConfig& config, const Model& model);

// Returns the dataset of data that OpenUnread has returned. One rank of each host reads all of a
// text, and every rank reads all pictures. Collective.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(UnreadData data, Ranks& ranks);

// Returns the rows of config.data.file, of which a model predicts something. InvalidArgument if
// they are not what the model reads.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRowsToPredict(const RunConfig& config,
                                                           const Model& model);

// Returns whether a language model of these data has bytes of a text as tokens.
bool TokensAreBytes(const RunConfig& config);

// Returns whether rows of a model have the length that the configuration sets.
bool RowsAreSequences(const Model& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_
