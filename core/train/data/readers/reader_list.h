// The list of all readers, and the reader of what --data names.
//
// Thread safety: all functions may be called concurrently.
#ifndef TESSERA_CORE_TRAIN_DATA_READERS_READER_LIST_H_
#define TESSERA_CORE_TRAIN_DATA_READERS_READER_LIST_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/train/data/dataset.h"
#include "core/train/data/readers/reader.h"

namespace tessera {

// Returns every reader, in the order of readers.inc.
absl::Span<const Reader* const> AllReaders();

// Returns what --data takes: all readers, in one line.
std::string DataHelp();

// Returns whether a value of --data is no path, but a name of one of the readers.
bool IsNameOfData(absl::string_view file);

// Returns the reader of a name or a path, which may not exist.
const Reader& ReaderOf(const std::string& file);

// Opens data to train on or to evaluate. NotFound for a path where there is nothing,
// InvalidArgument if the data are not what the model reads, and the errors of the reader: each in
// one line that names the data.
absl::StatusOr<UnreadData> OpenUnreadData(const DataRequest& request);

// Opens rows without targets, of which a model predicts something. Errors as above.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRowsToPredict(const DataRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_READERS_READER_LIST_H_
