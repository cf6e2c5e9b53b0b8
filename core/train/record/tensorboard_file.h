// Event files, from which TensorBoard draws its charts.
//
// A file is a sequence of records (TFRecord): the length of an Event in 8 bytes, the checksum of
// these in 4, the Event (tensorboard_event.proto), its checksum in 4. Numbers are little-endian. A
// checksum is the CRC-32C, rotated and increased as in
// github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/hash/crc32c.h.
#ifndef TESSERA_CORE_TRAIN_RECORD_TENSORBOARD_FILE_H_
#define TESSERA_CORE_TRAIN_RECORD_TENSORBOARD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"

namespace tessera {

// A number that TensorBoard draws in the chart `tag`. The file holds it in single precision; it may
// be infinite or NaN.
struct TensorboardScalar {
  std::string tag;
  double value = 0;
};

// Not thread-safe.
class TensorboardFile {
 public:
  // Makes a new file in a folder, "events.out.tfevents.<seconds since 1970>.<host>", for the steps
  // after `last_step`. TensorBoard reads the files of a folder in the order of these seconds, as
  // one run, and drops the steps after `last_step` of earlier files. If there is a file of this
  // second, the name has a later one. Returns the system's error, which names the file.
  static absl::StatusOr<std::unique_ptr<TensorboardFile>> Create(const Folder& folder,
                                                                 int64_t last_step);

  // Writes the scalars of a step as one record. It is kept even if this process is killed
  // (kill -9) right after. If it cannot be written, for example to a full disk, returns the
  // system's error; the file holds only complete records then, too, and can be written again.
  absl::Status Write(int64_t step, absl::Span<const TensorboardScalar> scalars);

  const std::string& path() const { return path_; }

 private:
  TensorboardFile(std::string path, FileDescriptor fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  // Appends bytes, all or none.
  absl::Status Append(absl::string_view records);

  const std::string path_;
  const FileDescriptor fd_;
  int64_t bytes_ = 0;  // of the file
};

// Returns the CRC-32C of bytes. Thread safety: a pure function.
uint32_t Crc32c(absl::string_view bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_TENSORBOARD_FILE_H_
