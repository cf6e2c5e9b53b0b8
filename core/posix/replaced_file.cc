#include "core/posix/replaced_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/output_file.h"
#include "core/posix/write_all.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::Status CannotWrite(const std::string& path, const absl::Status& cause) {
  return absl::Status(cause.code(), absl::StrCat("cannot write ", path, ": ", cause.message()));
}

}  // namespace

absl::StatusOr<ReplacedFile::Temporary> ReplacedFile::MakeTemporary(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path found = fs::canonical(path, none);  // "" if there is none
  const fs::path target = found.empty() ? fs::path(path) : found;
  const std::string parent = target.parent_path().string();
  ASSIGN_OR_RETURN(Folder folder, Folder::Open(parent.empty() ? "." : parent));
  std::string name = target.filename().string();
  // A name that nobody can foresee.
  std::string first = absl::StrFormat("%s.%08x", name, std::random_device()());
  ASSIGN_OR_RETURN(FileDescriptor file, folder.CreateFile(first));
  return Temporary{std::move(folder), std::move(name), std::move(first), std::move(file)};
}

absl::StatusOr<std::unique_ptr<ReplacedFile>> ReplacedFile::Begin(const std::string& path) {
  auto replaced = std::unique_ptr<ReplacedFile>(new ReplacedFile(path));
  struct stat info = {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists) RETURN_IF_ERROR(CheckOutputFile(path));
  // /dev/stdout may lead to a file, which this process has open under its name.
  if (exists && (!S_ISREG(info.st_mode) || absl::StartsWith(path, "/dev/"))) return replaced;
  absl::StatusOr<Temporary> made = MakeTemporary(path);
  if (!made.ok()) return CannotWrite(path, made.status());
  replaced->temporary_ = std::make_unique<Temporary>(*std::move(made));
  constexpr mode_t kPermissions = 0777;
  if (exists && fchmod(replaced->temporary_->file.get(), info.st_mode & kPermissions) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  return replaced;
}

ReplacedFile::~ReplacedFile() {
  if (temporary_ != nullptr) temporary_->folder.RemoveFile(temporary_->first).IgnoreError();
}

absl::Status ReplacedFile::Finish(absl::string_view contents) {
  if (temporary_ == nullptr) return WriteOutputFile(path_, contents);
  FileDescriptor& file = temporary_->file;
  const bool written = WriteAll(file.get(), contents) == contents.size() && fsync(file.get()) == 0;
  if (!written || close(file.Release()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }
  const Folder& folder = temporary_->folder;
  const absl::Status named = folder.Rename(temporary_->first, temporary_->name);
  if (!named.ok()) return CannotWrite(path_, named);
  const absl::Status synced = folder.Sync();
  temporary_.reset();
  return synced;
}

}  // namespace tessera
