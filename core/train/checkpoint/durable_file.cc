#include "core/train/checkpoint/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/posix/write_all.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::Status SystemError(int error, const std::string& message) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(absl::StrCat(message, ": ", strerror(error)));
  }
  return absl::ErrnoToStatus(error, message);
}

// Syncs the name of a new folder. Follows links, as mkdir does.
absl::Status SyncParent(const std::string& path) {
  std::string parent = std::filesystem::path(path).parent_path();
  if (parent.empty()) parent = ".";
  const FileDescriptor fd(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: a file system that cannot sync folders.
  if (fd.is_open() && (fsync(fd.get()) == 0 || errno == EINVAL)) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("cannot bring the folder ", parent, " to the disk"));
}

}  // namespace

absl::StatusOr<DurableWriter> DurableWriter::Create(const Folder& folder, const std::string& name,
                                                    const ChangeHook& before_change) {
  if (before_change) before_change(absl::StrCat("create ", name));
  ASSIGN_OR_RETURN(FileDescriptor fd, folder.CreateFile(name));
  return DurableWriter(folder.PathOf(name), std::move(fd), name, before_change);
}

absl::Status DurableWriter::Write(absl::Span<const char> bytes) {
  if (before_change_) before_change_(absl::StrCat("write ", record_.name));
  const size_t written = WriteAll(fd_.get(), absl::string_view(bytes.data(), bytes.size()));
  record_.bytes += static_cast<int64_t>(written);
  if (written < bytes.size()) {
    return SystemError(errno, absl::StrCat("cannot write ", path_, " beyond byte ", record_.bytes));
  }
  checksum_.Update(bytes);
  return absl::OkStatus();
}

absl::StatusOr<FileRecord> DurableWriter::Finish() {
  if (before_change_) before_change_(absl::StrCat("sync ", record_.name));
  // Some file systems notice a full or broken disk only here.
  if (fsync(fd_.get()) != 0) {
    return SystemError(errno, absl::StrCat("cannot bring ", path_, " to the disk"));
  }
  if (close(fd_.Release()) != 0) {
    return SystemError(errno, absl::StrCat("cannot close ", path_));
  }
  record_.checksum = checksum_.Hex();
  return std::move(record_);
}

absl::StatusOr<FileRecord> WriteDurableFile(const Folder& folder, const std::string& name,
                                            absl::string_view contents,
                                            const ChangeHook& before_change) {
  ASSIGN_OR_RETURN(DurableWriter writer, DurableWriter::Create(folder, name, before_change));
  RETURN_IF_ERROR(writer.Write(contents));
  return writer.Finish();
}

absl::StatusOr<std::unique_ptr<FileReader>> FileReader::Open(const Folder& folder,
                                                             const std::string& name) {
  ASSIGN_OR_RETURN(FileDescriptor fd, folder.OpenToRead(name));
  const std::string path = folder.PathOf(name);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(errno, absl::StrCat("cannot open ", path));
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
  if (mkdir(path.c_str(), 0777) == 0) return SyncParent(path);
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

absl::Status ReplaceFolder(const Folder& folder, const std::string& from, const std::string& to,
                           const std::string& aside, bool may_exchange) {
  if (may_exchange) {
    const absl::Status exchanged = folder.Exchange(from, to);
    if (!absl::IsUnimplemented(exchanged)) return exchanged;
  }
  RETURN_IF_ERROR(folder.Rename(to, aside));
  absl::Status status = folder.Rename(from, to);
  // The first error is the one to report.
  if (!status.ok()) folder.Rename(aside, to).IgnoreError();
  return status;
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

}  // namespace tessera
