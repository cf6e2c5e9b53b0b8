#include "core/posix/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/trusted_owner.h"
#include "core/posix/write_all.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::Status CannotWrite(int error, const std::string& path) {
  struct stat info;
  if (error == ENXIO && stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) {
    return absl::NotFoundError(
        absl::StrCat("cannot write ", path, ": it is a FIFO, and no process reads it"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

absl::StatusOr<FileDescriptor> OpenToWrite(const std::string& path) {
  struct stat link;
  if (lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode) && !IsUserOrRoot(link.st_uid)) {
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", path,
                                                    ": it is a symbolic link of user ", link.st_uid,
                                                    ", and this is user ", geteuid()));
  }
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  FileDescriptor file(open(path.c_str(), kFlags, 0666));
  if (!file.is_open()) return CannotWrite(errno, path);
  return file;
}

}  // namespace

absl::Status WriteOutputFile(const std::string& path, absl::string_view text) {
  ASSIGN_OR_RETURN(FileDescriptor file, OpenToWrite(path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return CannotWrite(errno, path);
  if (S_ISREG(info.st_mode) && ftruncate(file.get(), 0) != 0) return CannotWrite(errno, path);
  // Only open(2) must not wait: what is longer than a pipe's buffer waits for the reader.
  const int flags = fcntl(file.get(), F_GETFL);
  if (flags < 0 || fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return CannotWrite(errno, path);
  }
  if (WriteAll(file.get(), text) < text.size()) return CannotWrite(errno, path);
  // Some file systems notice a full disk only here.
  return close(file.Release()) == 0 ? absl::OkStatus() : CannotWrite(errno, path);
}

absl::Status CheckOutputFile(const std::string& path) {
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  if (!exists || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) {
    return OpenToWrite(path).status();
  }
  return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : CannotWrite(errno, path);
}

}  // namespace tessera
