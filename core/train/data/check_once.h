// Reads a text once for all ranks of a host.
#ifndef TESSERA_CORE_TRAIN_DATA_CHECK_ONCE_H_
#define TESSERA_CORE_TRAIN_DATA_CHECK_ONCE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/train/data/data_file.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// Returns the checksum of a file's contents, or InvalidArgument for contents that are not allowed.
using CheckContents = std::function<absl::StatusOr<std::string>(const DataFile& file)>;

// Collective. Returns what `check` returns for the file of this rank. It is called on one rank of
// those that have opened the same file of the same host; the others get its result. A rank may pass
// null, and gets "".
absl::StatusOr<std::string> CheckOncePerHost(const DataFile* file, const CheckContents& check,
                                             Ranks& ranks);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_CHECK_ONCE_H_
