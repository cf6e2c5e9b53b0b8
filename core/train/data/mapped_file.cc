#include "core/train/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera {

MappedFile::MappedFile(std::string path, FileDescriptor fd)
    : path_(std::move(path)), fd_(std::move(fd)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(absl::string_view path) {
  std::string name(path);
  // O_NONBLOCK: opening a pipe without a writer must not wait.
  FileDescriptor fd(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.is_open())
    return absl::ErrnoToStatus(errno, absl::StrCat(name, ": cannot open the file"));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat(name, ": cannot get the attributes of the file"));
  }
  std::unique_ptr<MappedFile> file(new MappedFile(std::move(name), std::move(fd)));
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
  void* data = mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->fd_.get(), 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat(file->path_, ": cannot map the file"));
  }
  file->data_ = static_cast<const char*>(data);
  return file;
}

absl::Status MappedFile::CheckSize() const {
  struct stat now;
  if (fstat(fd_.get(), &now) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat(path_, ": cannot get the attributes of the file"));
  }
  if (static_cast<size_t>(now.st_size) < size_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": the file was changed while it was in use: it had ", size_,
                     " bytes when it was opened and has ", now.st_size, " now"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MappedFile::ModifiedAt() const {
  struct stat now;
  if (fstat(fd_.get(), &now) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat(path_, ": cannot get the attributes of the file"));
  }
  return int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + now.st_mtim.tv_nsec;
}

}  // namespace tessera
