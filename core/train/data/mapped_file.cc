#include "core/train/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {

MappedFile::MappedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  close(fd_);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(absl::string_view path) {
  std::string name(path);
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(name, ": cannot open the file"));
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return absl::ErrnoToStatus(error, absl::StrCat(name, ": cannot look at the file"));
  }
  std::unique_ptr<MappedFile> file(new MappedFile(std::move(name), fd));
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(file->path_, ": is a folder, not a file"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(file->path_, ": is not a regular file"));
  }
  if (info.st_size == 0) {
    return absl::InvalidArgumentError(absl::StrCat(file->path_, ": the file is empty"));
  }
  file->size_ = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat(file->path_, ": cannot map the file"));
  }
  file->data_ = static_cast<const char*>(data);
  return file;
}

absl::Status MappedFile::CheckSize() const {
  struct stat now;
  if (fstat(fd_, &now) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot look at the file"));
  }
  if (static_cast<size_t>(now.st_size) != size_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": the file was changed while it was in use: it had ", size_,
                     " bytes when it was opened and has ", now.st_size, " now"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
