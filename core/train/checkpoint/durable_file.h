// Files and folders whose changes reach the disk before these functions report success. The
// system's errors are returned as absl::Status with the file's name; a full disk, an exhausted
// quota and a file-size limit are all ResourceExhausted.
//
// Thread safety: functions on different paths, and const methods, may run concurrently.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/checksum.h"

namespace tessera {

struct FileRecord {
  std::string name;
  int64_t bytes = 0;
  std::string checksum;  // XXH3-128, 32 hexadecimal digits
};

// If set, called with a description before each change on the disk. Tests end the process there.
using ChangeHook = std::function<void(absl::string_view what)>;

// A new file, written from its start to its end. If it is destroyed before Finish, its contents may
// be lost.
class DurableWriter {
 public:
  // Returns AlreadyExists if the folder has an entry of this name.
  static absl::StatusOr<DurableWriter> Create(const Folder& folder, const std::string& name,
                                              const ChangeHook& before_change = nullptr);

  absl::Status Write(absl::Span<const char> bytes);
  // Syncs everything that was written to the disk. The file's name is on the disk only after
  // Folder::Sync. Call it once.
  absl::StatusOr<FileRecord> Finish();

 private:
  DurableWriter(std::string path, FileDescriptor fd, const std::string& name,
                const ChangeHook& before_change)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        record_{name, 0, ""},
        before_change_(before_change) {}

  std::string path_;
  FileDescriptor fd_;  // none when finished
  Checksum checksum_;
  FileRecord record_;
  ChangeHook before_change_;
};

// Writes a new file with these contents.
absl::StatusOr<FileRecord> WriteDurableFile(const Folder& folder, const std::string& name,
                                            absl::string_view contents,
                                            const ChangeHook& before_change = nullptr);

// A file that stays readable after its name is removed.
class FileReader {
 public:
  // Returns InvalidArgument if the name is not that of a regular file. A link is followed if
  // Folder::OpenToRead does that.
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(const Folder& folder,
                                                          const std::string& name);

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

// Makes a folder that the user names and its missing parents, and syncs the names of the new ones.
absl::Status MakeFolders(const std::string& path);

// Renames `from` to `to`, and leaves the former `to` under another name for the caller to remove.
// If the file system can exchange two names (NFS cannot) and `may_exchange`, the former `to` is
// then named `from`, and `to` exists at all times. Otherwise it is named `aside`, and a crash
// between the two renames leaves `aside` and `from`, but no `to`.
absl::Status ReplaceFolder(const Folder& folder, const std::string& from, const std::string& to,
                           const std::string& aside, bool may_exchange = true);

// Returns whether a path that the user names leads to anything.
bool Exists(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_DURABLE_FILE_H_
