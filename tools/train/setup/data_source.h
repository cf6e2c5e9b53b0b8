// The data of a configuration.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/data/dataset.h"
#include "core/train/data/mapped_file.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// The value of data.file for random tokens.
inline constexpr char kSyntheticData[] = "synthetic";

// A text is read by bytes: each is a token.
inline constexpr int64_t kByteTokens = 256;

// Opens config.data.file, an absolute path, or the corpus that comes with the program, and reads
// only its beginning. Returns null for synthetic data. InvalidArgument if the data has tokens that
// a model of `vocabulary` tokens does not know.
absl::StatusOr<std::unique_ptr<MappedFile>> MapText(const RunConfig& config, int64_t vocabulary);

// Returns the dataset of a configuration: of `text`, which MapText has returned. One rank of each
// host reads all of it. Collective.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const RunConfig& config, int64_t vocabulary,
                                                     std::unique_ptr<MappedFile> text,
                                                     Ranks& ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_DATA_SOURCE_H_
