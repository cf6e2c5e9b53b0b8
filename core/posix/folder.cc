#include "core/posix/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/trusted_owner.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Without O_NONBLOCK, open(2) of a FIFO waits for its other end.
constexpr int kFileFlags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr int kMostLinks = 40;  // that the kernel follows in one path

absl::Status SystemError(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

absl::Status CheckName(const std::string& name) {
  if (IsEntryName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError("the name of a file is empty, or is a path");
}

const char* KindOf(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status WrongKind(absl::string_view path, mode_t mode, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is ", KindOf(mode), ", not ", expected, ": move it away"));
}

std::string WithoutSlashesAtTheEnd(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Returns the path up to its last name: "." for a name alone.
std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return WithoutSlashesAtTheEnd(path.substr(0, std::max<size_t>(slash, 1)));
}

// Returns the target of a link that belongs to this user or to root. `path` is for messages.
absl::StatusOr<std::string> TargetOfOwnLink(int folder, const std::string& name,
                                            const std::string& path) {
  const FileDescriptor link(openat(folder, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!link.is_open() || fstat(link.get(), &info) != 0) return SystemError(errno, "open", path);
  if (!IsUserOrRoot(info.st_uid)) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is a symbolic link of user ", info.st_uid, ", and this is user ",
                     geteuid(), ": it is not followed; name the file or folder itself"));
  }
  std::string target(PATH_MAX, '\0');
  const ssize_t length = readlinkat(link.get(), "", &target[0], target.size());
  if (length < 0) return SystemError(errno, "open", path);
  target.resize(static_cast<size_t>(length));
  return target;
}

std::optional<struct stat> StatEntry(int folder, const std::string& name) {
  struct stat info;
  if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return info;
}

absl::StatusOr<FileDescriptor> CheckRegular(FileDescriptor file, const std::string& path) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError(errno, "open", path);
  if (!S_ISREG(info.st_mode)) return WrongKind(path, info.st_mode, "a regular file");
  return file;
}

// Returns the user to whom the file system attributes a file that this process creates. Asks the
// open file, which nobody can exchange.
std::optional<uid_t> OwnerOfNewFile(int folder) {
  const std::string name = absl::StrFormat(".owner-%08x", std::random_device()());
  const FileDescriptor file(
      openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | kFileFlags, 0600));
  struct stat info;
  if (!file.is_open()) return std::nullopt;
  const bool known = fstat(file.get(), &info) == 0;
  unlinkat(folder, name.c_str(), 0);
  if (!known) return std::nullopt;
  return info.st_uid;
}

}  // namespace

bool IsEntryName(absl::string_view name) {
  return !name.empty() && name != "." && name != ".." && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\0');
}

absl::StatusOr<Folder> Folder::Open(const std::string& path) {
  std::string current = WithoutSlashesAtTheEnd(path);
  for (int links = 0; links < kMostLinks; ++links) {
    FileDescriptor fd(open(current.c_str(), kFolderFlags));
    if (fd.is_open()) return Folder(WithoutSlashesAtTheEnd(path), std::move(fd));
    const int error = errno;
    const std::optional<struct stat> entry = StatEntry(AT_FDCWD, current);
    if (!entry.has_value() || !S_ISLNK(entry->st_mode)) {
      return SystemError(error, "open the folder", path);
    }
    ASSIGN_OR_RETURN(std::string target, TargetOfOwnLink(AT_FDCWD, current, current));
    if (!absl::StartsWith(target, "/")) target = absl::StrCat(ParentOf(current), "/", target);
    current = WithoutSlashesAtTheEnd(std::move(target));
  }
  return SystemError(ELOOP, "open the folder", path);
}

absl::StatusOr<Folder> Folder::OpenBelow(const std::string& path, int names) {
  const std::string clean_path = WithoutSlashesAtTheEnd(path);
  if (names == 0) return Open(clean_path);
  ASSIGN_OR_RETURN(const Folder parent, OpenBelow(ParentOf(clean_path), names - 1));
  return parent.OpenFolder(clean_path.substr(clean_path.rfind('/') + 1));
}

std::string Folder::PathOf(absl::string_view name) const {
  return absl::StrCat(path_ == "/" ? "" : path_, "/", name);
}

absl::Status Folder::CannotOpen(int error, const std::string& name) const {
  const std::optional<struct stat> entry = StatEntry(fd_.get(), name);
  if (entry.has_value() && !S_ISREG(entry->st_mode)) {
    return WrongKind(PathOf(name), entry->st_mode, "a regular file");
  }
  return SystemError(error, "open", PathOf(name));
}

absl::StatusOr<Folder> Folder::OpenFolder(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  FileDescriptor fd(openat(fd_.get(), name.c_str(), kFolderFlags));
  if (fd.is_open()) return Folder(PathOf(name), std::move(fd));
  const int error = errno;
  const std::optional<struct stat> entry = StatEntry(fd_.get(), name);
  if (entry.has_value() && !S_ISDIR(entry->st_mode)) {
    return WrongKind(PathOf(name), entry->st_mode, "a folder");
  }
  return SystemError(error, "open the folder", PathOf(name));
}

absl::StatusOr<Folder> Folder::CreateFolder(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  if (mkdirat(fd_.get(), name.c_str(), 0777) != 0) {
    return SystemError(errno, "make the folder", PathOf(name));
  }
  RETURN_IF_ERROR(Sync());
  return OpenFolder(name);
}

absl::StatusOr<Folder> Folder::OpenOrCreateFolder(const std::string& name) const {
  absl::StatusOr<Folder> created = CreateFolder(name);
  if (!absl::IsAlreadyExists(created.status())) return created;
  ASSIGN_OR_RETURN(Folder folder, OpenFolder(name));
  RETURN_IF_ERROR(folder.CheckOwner());
  return folder;
}

absl::StatusOr<FileDescriptor> Folder::CreateFile(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  FileDescriptor file(
      openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | kFileFlags, 0666));
  if (!file.is_open()) return SystemError(errno, "create", PathOf(name));
  return file;
}

absl::Status Folder::CheckOwnOnlyName(int fd, const std::string& name) const {
  struct stat file, folder;
  if (fstat(fd, &file) != 0 || fstat(fd_.get(), &folder) != 0) {
    return SystemError(errno, "open", PathOf(name));
  }
  if (file.st_nlink > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(PathOf(name), " is a hard link, and the file has ", file.st_nlink,
                     " names: it is not written through this one; move it away"));
  }
  const bool trusted = IsUserOrRoot(file.st_uid) || file.st_uid == folder.st_uid;
  if (trusted || geteuid() == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(PathOf(name), " belongs to user ", file.st_uid,
                                                  ", and this is user ", geteuid(),
                                                  ": move it away"));
}

absl::StatusOr<FileDescriptor> Folder::OpenToExtend(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  constexpr int kFlags = O_RDWR | O_APPEND | kFileFlags;
  FileDescriptor created(openat(fd_.get(), name.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
  if (created.is_open()) return created;
  if (errno != EEXIST) return SystemError(errno, "create", PathOf(name));
  FileDescriptor opened(openat(fd_.get(), name.c_str(), kFlags));
  if (!opened.is_open()) return CannotOpen(errno, name);
  ASSIGN_OR_RETURN(FileDescriptor file, CheckRegular(std::move(opened), PathOf(name)));
  RETURN_IF_ERROR(CheckOwnOnlyName(file.get(), name));
  return file;
}

absl::StatusOr<FileDescriptor> Folder::OpenToRead(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  FileDescriptor file(openat(fd_.get(), name.c_str(), O_RDONLY | kFileFlags));
  if (file.is_open()) return CheckRegular(std::move(file), PathOf(name));
  if (errno == ELOOP) return FollowToRead(name);
  return CannotOpen(errno, name);
}

absl::StatusOr<FileDescriptor> Folder::FollowToRead(const std::string& name) const {
  ASSIGN_OR_RETURN(const std::string target, TargetOfOwnLink(fd_.get(), name, PathOf(name)));
  FileDescriptor file(openat(fd_.get(), target.c_str(), O_RDONLY | (kFileFlags & ~O_NOFOLLOW)));
  if (!file.is_open()) return SystemError(errno, "open", PathOf(name));
  return CheckRegular(std::move(file), PathOf(name));
}

absl::StatusOr<std::string> Folder::ReadStart(const std::string& name, size_t most) const {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenToRead(name));
  // `most` may be a generous bound on a small file.
  char piece[16384];
  std::string start;
  while (start.size() < most) {
    const ssize_t count = read(file.get(), piece, std::min(sizeof(piece), most - start.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "read", PathOf(name));
    if (count == 0) break;
    start.append(piece, static_cast<size_t>(count));
  }
  return start;
}

bool Folder::Has(const std::string& name) const { return StatEntry(fd_.get(), name).has_value(); }

// The descriptor of the folder itself can be neither read nor synced.
absl::StatusOr<FileDescriptor> Folder::OpenItself() const {
  FileDescriptor fd(openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return SystemError(errno, "open the folder", path_);
  return fd;
}

absl::StatusOr<std::vector<std::string>> Folder::List() const {
  ASSIGN_OR_RETURN(FileDescriptor fd, OpenItself());
  DIR* const entries = fdopendir(fd.get());
  if (entries == nullptr) return SystemError(errno, "list the folder", path_);
  fd.Release();  // closedir closes it
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int error = errno;
  closedir(entries);
  if (error != 0) return SystemError(error, "list the folder", path_);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Folder::Rename(const std::string& from, const std::string& to) const {
  RETURN_IF_ERROR(CheckName(from));
  RETURN_IF_ERROR(CheckName(to));
  if (renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) == 0) return absl::OkStatus();
  return SystemError(errno, absl::StrCat("rename ", PathOf(from), " to"), PathOf(to));
}

absl::Status Folder::Exchange(const std::string& one, const std::string& other) const {
  RETURN_IF_ERROR(CheckName(one));
  RETURN_IF_ERROR(CheckName(other));
  if (renameat2(fd_.get(), one.c_str(), fd_.get(), other.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  const int error = errno == EINVAL || errno == EOPNOTSUPP ? ENOSYS : errno;
  return SystemError(error, absl::StrCat("exchange ", PathOf(one), " with"), PathOf(other));
}

absl::Status Folder::RemoveFile(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  if (unlinkat(fd_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
  return SystemError(errno, "remove", PathOf(name));
}

absl::Status Folder::RemoveFolder(const std::string& name) const {
  RETURN_IF_ERROR(CheckName(name));
  if (unlinkat(fd_.get(), name.c_str(), AT_REMOVEDIR) == 0) return absl::OkStatus();
  return SystemError(errno, "remove the folder", PathOf(name));
}

absl::Status Folder::Sync() const {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenItself());
  // EINVAL: a file system that cannot sync folders.
  if (fsync(fd.get()) == 0 || errno == EINVAL) return absl::OkStatus();
  return absl::ErrnoToStatus(errno,
                             absl::StrCat("cannot bring the folder ", path_, " to the disk"));
}

absl::StatusOr<FileDescriptor> Folder::Lock() const {
  ASSIGN_OR_RETURN(FileDescriptor fd, OpenItself());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::UnavailableError(absl::StrCat("another process has locked ", path_));
  }
  return fd;
}

absl::Status Folder::CheckOwner() const {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return SystemError(errno, "open the folder", path_);
  if (geteuid() == 0 || IsUserOrRoot(info.st_uid) || OwnerOfNewFile(fd_.get()) == info.st_uid) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      path_, " belongs to user ", info.st_uid, ", and this is user ", geteuid(),
      ": its owner could exchange the files in it; use a new folder, or one of your own"));
}

std::string Folder::OthersWhoCanWrite() const {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return "";
  if ((info.st_mode & S_IWOTH) != 0) {
    return absl::StrCat("every user of the host can write in ", path_,
                        ", and so change what is saved there: chmod o-w ", path_);
  }
  if (geteuid() != 0 || IsUserOrRoot(info.st_uid)) return "";
  return absl::StrCat(path_, " belongs to user ", info.st_uid,
                      ", who can change what root saves there");
}

}  // namespace tessera
