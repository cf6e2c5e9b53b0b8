// A regular file that is open for reading.
//
// It is read, not mapped: a process that accesses mapped bytes which have been removed from the
// file meanwhile is killed (SIGBUS).
#ifndef TESSERA_CORE_TRAIN_DATA_DATA_FILE_H_
#define TESSERA_CORE_TRAIN_DATA_DATA_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/file_descriptor.h"

namespace tessera {

// The attributes of a file that change with its contents.
struct FileVersion {
  int64_t bytes = 0;
  int64_t modified_at = 0;  // nanoseconds since 1970

  bool operator==(const FileVersion& other) const {
    return bytes == other.bytes && modified_at == other.modified_at;
  }
};

// Thread safety: immutable.
class DataFile {
 public:
  // Returns the system's error (NotFound, PermissionDenied, ...), or InvalidArgument for a folder,
  // a pipe or an empty file. Every message starts with the path.
  static absl::StatusOr<std::unique_ptr<DataFile>> Open(absl::string_view path);

  const std::string& path() const { return path_; }
  // The file when it was opened.
  const FileVersion& opened() const { return opened_; }
  // Returns the same text for two files of one host only if they are the same file, unchanged
  // between the times at which they were opened.
  std::string Identity() const;

  // Returns the file's present version. FailedPrecondition if it is shorter than when it was
  // opened. It may be longer.
  absl::StatusOr<FileVersion> Version() const;

  // Reads the bytes at an offset as they are in the file now. FailedPrecondition if the file ends
  // before them; else the system's error.
  absl::Status ReadAt(int64_t offset, absl::Span<char> bytes) const;

 private:
  DataFile(std::string path, FileDescriptor fd);

  const std::string path_;
  const FileDescriptor fd_;
  FileVersion opened_;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_DATA_FILE_H_
