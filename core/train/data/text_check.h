// Checks that a file is text, and computes its checksum, in one pass.
//
// Thread safety: all functions may be called concurrently.
#ifndef TESSERA_CORE_TRAIN_DATA_TEXT_CHECK_H_
#define TESSERA_CORE_TRAIN_DATA_TEXT_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/data/data_file.h"

namespace tessera {

// Returns the checksum (checksum.h) of the bytes that a file had when it was opened. The errors of
// DataFile::ReadAt, also for a file that is made shorter meanwhile. InvalidArgument, with the path,
// the byte, its offset and line, if they are not text: if they are not UTF-8, hold a zero
// byte, or more than one other control byte in a hundred; control bytes that occur in texts, such
// as tabs and form feeds, do not count. The message names the format if it is a known one.
//
// A JSON file is text too, but its names and brackets would be trained on: it is refused if its
// name ends in .json or .jsonl.
absl::StatusOr<std::string> CheckText(const DataFile& file);

// Checks the beginning of a file only: formats that are no text show there.
absl::Status CheckBeginningOfText(const DataFile& file);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_TEXT_CHECK_H_
