#include "core/train/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status CannotStat(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot get the attributes of the file"));
}

FileVersion VersionOf(const struct stat& info) {
  return {int64_t{info.st_size},
          int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace

DataFile::DataFile(std::string path, FileDescriptor fd)
    : path_(std::move(path)), fd_(std::move(fd)) {}

absl::StatusOr<std::unique_ptr<DataFile>> DataFile::Open(absl::string_view path) {
  std::string name(path);
  // O_NONBLOCK: opening a pipe without a writer must not wait.
  FileDescriptor fd(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open())
    return absl::ErrnoToStatus(errno, absl::StrCat(name, ": cannot open the file"));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return CannotStat(name);
  std::unique_ptr<DataFile> file(new DataFile(std::move(name), std::move(fd)));
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(file->path_, ": is a folder, not a file"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(file->path_, ": is not a regular file"));
  }
  if (info.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(file->path_, ": the file is empty"));
  }
  file->opened_ = VersionOf(info);
  file->device_ = info.st_dev;
  file->inode_ = info.st_ino;
  return file;
}

std::string DataFile::Identity() const {
  return absl::StrCat(device_, " ", inode_, " ", opened_.bytes, " ", opened_.modified_at);
}

absl::StatusOr<FileVersion> DataFile::Version() const {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return CannotStat(path_);
  const FileVersion now = VersionOf(info);
  if (now.bytes >= opened_.bytes) return now;
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": the file was changed while it was in use: it had ", opened_.bytes,
                   " bytes when it was opened and has ", now.bytes, " now"));
}

absl::Status DataFile::ReadAt(int64_t offset, absl::Span<char> bytes) const {
  for (size_t filled = 0; filled < bytes.size();) {
    const ssize_t count = pread(fd_.get(), bytes.data() + filled, bytes.size() - filled,
                                offset + static_cast<int64_t>(filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot read the file"));
    if (count == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": the file was changed while it was in use: it had ", opened_.bytes,
                       " bytes when it was opened, and ends at byte ", offset + filled, " now"));
    }
    filled += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace tessera
