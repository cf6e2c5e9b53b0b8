#include "core/train/checkpoint/durable_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::Status SystemError(int error, const std::string& message) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(message, ": ", strerror(error)));
  }
  return absl::ErrnoToStatus(error, message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurableWriter>> DurableWriter::Create(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.is_open()) return SystemError(errno, absl::StrCat("cannot create ", path));
  return std::unique_ptr<DurableWriter>(new DurableWriter(path, std::move(fd)));
}

absl::Status DurableWriter::Write(absl::Span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return SystemError(errno, absl::StrCat("cannot write ", path_, " beyond byte ", written_));
    }
    written_ += count;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status DurableWriter::Finish() {
  // Some file systems notice a full or broken disk only here.
  if (fsync(fd_.get()) != 0) {
    return SystemError(errno, absl::StrCat("cannot bring ", path_, " to the disk"));
  }
  if (close(fd_.Release()) != 0) {
    return SystemError(errno, absl::StrCat("cannot close ", path_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileReader>> FileReader::Open(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open()) return SystemError(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(errno, absl::StrCat("cannot open ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  return std::unique_ptr<FileReader>(new FileReader(path, std::move(fd), info.st_size));
}

absl::Status FileReader::Read(int64_t offset, absl::Span<char> out) const {
  while (!out.empty()) {
    const ssize_t count = pread(fd_.get(), out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return SystemError(errno, absl::StrCat("cannot read ", path_, " at byte ", offset));
    }
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(path_, " ends at byte ", offset, ": ", out.size(),
                                              " more bytes should follow"));
    }
    offset += count;
    out.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FileReader::ReadStart(int64_t bytes) const {
  std::string start(static_cast<size_t>(bytes), '\0');
  RETURN_IF_ERROR(Read(0, absl::MakeSpan(&start[0], start.size())));
  return start;
}

absl::Status MakeFolders(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) {
    const std::string parent = std::filesystem::path(path).parent_path();
    return SyncFolder(parent.empty() ? "." : parent);
  }
  const int error = errno;
  struct stat info;
  if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::OkStatus();
  }
  const std::string parent = std::filesystem::path(path).parent_path();
  // Some file systems (/proc) return ENOENT for every new name.
  if (error == ENOENT && !parent.empty() && parent != path && !Exists(parent)) {
    RETURN_IF_ERROR(MakeFolders(parent));
    // "a/" exists as soon as "a" does.
    return Exists(path) ? absl::OkStatus() : MakeFolders(path);
  }
  return SystemError(error, absl::StrCat("cannot make the folder ", path));
}

absl::Status SyncFolder(const std::string& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return SystemError(errno, absl::StrCat("cannot open the folder ", path));
  // EINVAL: a file system that cannot sync folders.
  if (fsync(fd.get()) == 0 || errno == EINVAL) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("cannot bring the folder ", path, " to the disk"));
}

absl::Status RenameFolder(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("cannot rename ", from, " to ", to));
}

absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside,
                           bool may_exchange) {
  if (may_exchange) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
      return absl::OkStatus();
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
      return SystemError(errno, absl::StrCat("cannot exchange ", from, " with ", to));
    }
  }
  RETURN_IF_ERROR(RenameFolder(to, aside));
  absl::Status status = RenameFolder(from, to);
  // The first error is the one to report.
  if (!status.ok()) RenameFolder(aside, to).IgnoreError();
  return status;
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return SystemError(error.value(), absl::StrCat("cannot remove ", path));
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) return SystemError(errno, absl::StrCat("cannot open the folder ", path));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int error = errno;
  closedir(folder);
  if (error != 0) return SystemError(error, absl::StrCat("cannot list the folder ", path));
  std::sort(names.begin(), names.end());
  return names;
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return SystemError(errno, absl::StrCat("cannot open the folder ", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("another process is saving to ", path));
  }
  return std::unique_ptr<FolderLock>(new FolderLock(std::move(fd)));
}

}  // namespace tessera
