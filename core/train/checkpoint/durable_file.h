// Files and folders whose changes reach the disk before these functions report success. The
// system's errors are returned as absl::Status with the file's name; a full disk, an exhausted
// quota and a file-size limit are all ResourceExhausted.
//
// Thread safety: functions on different paths, and const methods, may run concurrently.
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
  // Returns AlreadyExists if the file exists.
  static absl::StatusOr<std::unique_ptr<DurableWriter>> Create(const std::string& path);

  absl::Status Write(absl::Span<const char> bytes);
  // Syncs everything that was written to the disk. The file's name is on the disk only after
  // SyncFolder.
  absl::Status Finish();

 private:
  DurableWriter(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  FileDescriptor fd_;  // none when finished
  int64_t written_ = 0;
};

// A file that stays readable after its name is removed.
class FileReader {
 public:
  // Returns InvalidArgument if the path is not a regular file.
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // when it was opened

  // Fills `out` from byte `offset` on. Returns DataLoss if the file ends before `out` is full.
  absl::Status Read(int64_t offset, absl::Span<char> out) const;
  // The first `bytes` bytes.
  absl::StatusOr<std::string> ReadStart(int64_t bytes) const;

 private:
  FileReader(std::string path, FileDescriptor fd, int64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  const std::string path_;
  const FileDescriptor fd_;
  const int64_t bytes_;
};

// Makes a folder and its missing parents, and syncs the names of the new ones.
absl::Status MakeFolders(const std::string& path);

// Syncs new, renamed and removed names in a folder to the disk.
absl::Status SyncFolder(const std::string& path);

absl::Status RenameFolder(const std::string& from, const std::string& to);

// Renames `from` to `to`, and leaves the former `to` under another name for the caller to remove.
// If the file system can exchange two names (NFS cannot) and `may_exchange`, the former `to` is
// then named `from`, and `to` exists at all times. Otherwise it is named `aside`, and a crash
// between the two renames leaves `aside` and `from`, but no `to`.
absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside,
                           bool may_exchange = true);

// Removes a file, or a folder and everything in it. Returns OK if nothing has this path.
absl::Status RemoveTree(const std::string& path);

// Returns the names in a folder without "." and "..", in alphabetical order.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

bool Exists(const std::string& path);

// A lock that one process at a time can hold. The system releases it when the process ends, for
// whatever reason.
class FolderLock {
 public:
  // Returns Unavailable if another process holds it. On a file system without locks, returns an
  // object that locks nothing.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& path);

 private:
  explicit FolderLock(FileDescriptor fd) : fd_(std::move(fd)) {}

  const FileDescriptor fd_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_
