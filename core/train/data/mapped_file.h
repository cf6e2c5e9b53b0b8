// A whole regular file as read-only memory, brought in by the system as it is touched.
#ifndef TESSERA_CORE_TRAIN_DATA_MAPPED_FILE_H_
#define TESSERA_CORE_TRAIN_DATA_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"

namespace tessera {

// Thread safety: immutable.
class MappedFile {
 public:
  // NotFound, PermissionDenied and so on from the system; InvalidArgument for what is not a regular
  // file (a folder, a pipe) and for an empty one. Each message starts with the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(absl::string_view path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  // Valid as long as this object.
  absl::string_view contents() const { return {data_, size_}; }

  // FailedPrecondition if the file has become shorter or longer since it was opened. To touch the
  // lost part of a file that was cut ends the process (SIGBUS), so ask before reading; what happens
  // between the question and the reading is not seen.
  absl::Status CheckSize() const;

  // When the file was last written to, in nanoseconds since 1970.
  absl::StatusOr<int64_t> ModifiedAt() const;

 private:
  MappedFile(std::string path, FileDescriptor fd);

  const std::string path_;
  const FileDescriptor fd_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_MAPPED_FILE_H_
