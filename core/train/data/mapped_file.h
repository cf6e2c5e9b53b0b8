// A regular file mapped as read-only memory. The system reads pages when they are first accessed.
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
  // Returns the system's error (NotFound, PermissionDenied, ...), or InvalidArgument for a folder,
  // a pipe or an empty file. Every message starts with the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(absl::string_view path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  // Valid as long as this object.
  absl::string_view contents() const { return {data_, size_}; }

  // Returns FailedPrecondition if the file is shorter than when it was opened. Reading its missing
  // end kills the process (SIGBUS), so call this before reading; a change between the call and the
  // read is not detected. What has been appended is not in contents().
  absl::Status CheckSize() const;

  // Returns the time of the last change of the file's contents, in nanoseconds since 1970.
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
