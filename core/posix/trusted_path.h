// Checks that nobody but the user can change a file from which code is loaded.
//
// Whoever can write a file, or a folder above it, decides what it holds. Trusted are the user,
// root, and everyone who could change this program's own file: they run code as the user anyway.
// That covers a build tree of another owner that is mounted into a container, and a user namespace
// in which files of root have an owner without a number.
#ifndef TESSERA_CORE_POSIX_TRUSTED_PATH_H_
#define TESSERA_CORE_POSIX_TRUSTED_PATH_H_

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera {

// A file, or a folder above it, with its owner and its mode as lstat(2) returns them.
struct PathEntry {
  std::string path;
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
};

// The users and groups that may own and write what code is loaded from.
struct TrustedWriters {
  std::set<uid_t> users;
  std::set<gid_t> groups;
  // Folders above this program's own file, which are trusted as they are: whoever can write one of
  // them can replace the program.
  std::set<std::string> folders;
};

// Returns an entry for the file and for each folder above it, "/" first. `path` is absolute and
// without links. An error has the code of its errno.
absl::StatusOr<std::vector<PathEntry>> EntriesOfPath(const std::string& path);

// Returns those whom this process trusts.
TrustedWriters WritersTrustedByProcess();

// Returns FailedPrecondition, in one line that names the entry, the fault and the remedy, if an
// entry belongs to a user who is not trusted, or if a group that is not trusted, or everyone, can
// write it. Folders with the sticky bit may be written by everyone, because nobody can replace an
// entry of another owner there. The last entry is the file. Thread safety: a pure function.
absl::Status CheckWriters(absl::Span<const PathEntry> entries, const TrustedWriters& trusted);

// Does both for a file: `path` is absolute and without links.
absl::Status CheckTrustedPath(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_TRUSTED_PATH_H_
