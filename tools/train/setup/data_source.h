// The data of a configuration.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/model/model.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/data/mapped_file.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// The value of data.file for random rows of what the model reads.
inline constexpr char kSyntheticData[] = "synthetic";

// Returns whether a value of data.file is no path: "synthetic", or "fashion-mnist", the pictures of
// Debian's package dataset-fashion-mnist.
bool IsNameOfData(absl::string_view file);

// Opens config.data.file, an absolute path or a name, or the corpus that comes with the program,
// and reads only its beginning. Returns null for data that are no text: synthetic data, and
// pictures, which are a folder. InvalidArgument if the data are a text, and not what the model
// reads.
absl::StatusOr<std::unique_ptr<MappedFile>> MapText(const RunConfig& config, const Model& model);

// Returns the dataset of a configuration: of `text`, which MapText has returned, if it is not null.
// One rank of each host reads all of a text, and every rank reads all pictures. InvalidArgument if
// the data are not what the model reads. Collective.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const RunConfig& config, const Model& model,
                                                     std::unique_ptr<MappedFile> text,
                                                     Ranks& ranks);

// Returns the rows of config.data.file, of which a model predicts something: a file of pictures
// without labels, or synthetic. InvalidArgument if they are not what the model reads.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRowsToPredict(const RunConfig& config,
                                                           const Model& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_
