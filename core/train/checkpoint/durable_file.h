// Files and folders that are on the disk when these functions say so, and the system's errors as
// absl::Status: each names the file, and a full disk, a used-up quota and a file-size limit are all
// ResourceExhausted.
//
// Thread safety: functions on different paths, and const methods, may run at once.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/posix/file_descriptor.h"

namespace tessera {

// A new file, written from its start to its end. If it is destroyed before Finish, its contents may
// be lost.
class DurableWriter {
 public:
  // AlreadyExists if there is such a file.
  static absl::StatusOr<std::unique_ptr<DurableWriter>> Create(const std::string& path);

  absl::Status Write(absl::Span<const char> bytes);
  // Everything written is on the disk after this, but the file's name only after SyncFolder.
  absl::Status Finish();

 private:
  DurableWriter(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  FileDescriptor fd_;  // none when finished
  int64_t written_ = 0;
};

// A file that stays readable even if its name is removed meanwhile.
class FileReader {
 public:
  // InvalidArgument if it is not a regular file.
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // when it was opened

  // Fills `out` with what lies at `offset`. DataLoss if the file ends before.
  absl::Status Read(int64_t offset, absl::Span<char> out) const;

 private:
  FileReader(std::string path, FileDescriptor fd, int64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  const std::string path_;
  const FileDescriptor fd_;
  const int64_t bytes_;
};

// Makes a folder and those above it where they are missing, and syncs the names of the new ones.
absl::Status MakeFolders(const std::string& path);

// The names in a folder that were made, renamed or removed are so on the disk after this.
absl::Status SyncFolder(const std::string& path);

absl::Status RenameFolder(const std::string& from, const std::string& to);

// Makes `from` take the place and name of `to`, and leaves what was there for the caller to remove.
// Where the file system can exchange two names (`may_exchange`, and not NFS), `to` is never
// missing, and what it was is now `from`. Elsewhere what it was is `aside`, and a crash in between
// leaves `aside` and `from`, but no `to`.
absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside,
                           bool may_exchange = true);

// A folder or file and all in it. OK if there is none.
absl::Status RemoveTree(const std::string& path);

// Names in a folder, "." and ".." left out, in alphabetical order.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

bool Exists(const std::string& path);

// Held by one process at a time, and let go by the system when the process ends, however it ends.
class FolderLock {
 public:
  // Unavailable if another one has it. OK without a lock where the file system has none.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& path);

 private:
  explicit FolderLock(FileDescriptor fd) : fd_(std::move(fd)) {}

  const FileDescriptor fd_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_
