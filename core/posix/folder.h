// An open folder, through which files are opened that another user may have prepared.
//
// To write, rename or remove an entry, no symbolic link is followed: the entry lies in the folder
// itself. To read one, a link is followed if it belongs to this user or to root. An entry that is
// no regular file is refused, so nothing waits in open(2) for the other end of a FIFO. New files
// and folders have the permissions that the umask leaves of 0666 and 0777.
//
// Names are those of entries (IsEntryName); another one is InvalidArgument.
#ifndef TESSERA_CORE_POSIX_FOLDER_H_
#define TESSERA_CORE_POSIX_FOLDER_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"

namespace tessera {

// Returns whether a name can be that of an entry of a folder: it is no path, and neither "." nor
// "..".
bool IsEntryName(absl::string_view name);

// Thread safety: const methods may run concurrently.
class Folder {
 public:
  // Opens a folder that the user names. Links above it are followed; the folder itself may be a
  // link if that belongs to this user or to root, else PermissionDenied names its owner.
  static absl::StatusOr<Folder> Open(const std::string& path);
  // Opens a folder by its path. The last `names` names of the path are not followed if they are
  // links; what they lie in is opened by Open.
  static absl::StatusOr<Folder> OpenBelow(const std::string& path, int names);

  const std::string& path() const { return path_; }  // for messages
  // Returns the path of an entry, for messages.
  std::string PathOf(absl::string_view name) const;

  // Returns InvalidArgument if the entry is no folder.
  absl::StatusOr<Folder> OpenFolder(const std::string& name) const;
  // Makes a folder, and brings its name to the disk. AlreadyExists if the name is taken.
  absl::StatusOr<Folder> CreateFolder(const std::string& name) const;
  // Opens the folder if it exists, with an error unless CheckOwner accepts it; else makes it.
  absl::StatusOr<Folder> OpenOrCreateFolder(const std::string& name) const;

  // Creates a file to write. AlreadyExists if the name is taken, also by a link.
  absl::StatusOr<FileDescriptor> CreateFile(const std::string& name) const;
  // Opens or creates a file that is read, truncated and appended to in its place. It must be a
  // regular file with this one name (another one may be what an attacker wants overwritten) that
  // belongs to this user, to root, or to the owner of the folder; to root, any owner will do.
  absl::StatusOr<FileDescriptor> OpenToExtend(const std::string& name) const;
  // Opens a regular file. NotFound if there is none, InvalidArgument for another kind of entry.
  absl::StatusOr<FileDescriptor> OpenToRead(const std::string& name) const;
  // Returns the first bytes of a regular file, `most` at most.
  absl::StatusOr<std::string> ReadStart(const std::string& name, size_t most) const;

  // Returns whether there is an entry of this name, of any kind.
  bool Has(const std::string& name) const;
  // Returns the names of all entries in alphabetical order.
  absl::StatusOr<std::vector<std::string>> List() const;
  // Renames an entry within the folder. It replaces an entry of the name `to`, unless that is a
  // folder that is not empty, or only one of the two is a folder.
  absl::Status Rename(const std::string& from, const std::string& to) const;
  // Exchanges two entries. Unimplemented on a file system that cannot (NFS).
  absl::Status Exchange(const std::string& one, const std::string& other) const;
  absl::Status RemoveFile(const std::string& name) const;
  // Returns an error if the folder is not empty.
  absl::Status RemoveFolder(const std::string& name) const;
  // Brings new, renamed and removed names to the disk.
  absl::Status Sync() const;

  // Takes the lock of the folder, which the system releases when the result is closed or the
  // process ends. Unavailable if another process holds it. On a file system without locks, returns
  // a descriptor that locks nothing.
  absl::StatusOr<FileDescriptor> Lock() const;

  // Returns PermissionDenied, with the owner's number, unless the folder belongs to this user or
  // to root. Root may use any folder. On a file system that attributes all files to one user (NFS
  // with all_squash, FUSE), that user counts as this one.
  absl::Status CheckOwner() const;
  // Returns a line for the user about others who can change what lies here: an owner other than
  // root if this process is root's, or everybody. "" if there are none.
  std::string OthersWhoCanWrite() const;

 private:
  Folder(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::StatusOr<FileDescriptor> OpenItself() const;
  absl::StatusOr<FileDescriptor> FollowToRead(const std::string& name) const;
  absl::Status CheckOwnOnlyName(int fd, const std::string& name) const;
  absl::Status CannotOpen(int error, const std::string& name) const;

  std::string path_;
  FileDescriptor fd_;  // O_PATH: it needs no right to list the folder
};

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_FOLDER_H_
