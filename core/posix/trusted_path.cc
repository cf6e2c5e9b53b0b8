#include "core/posix/trusted_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

bool IsFolder(const PathEntry& entry) { return S_ISDIR(entry.mode); }

// Returns whether only the owner of an entry of this folder can rename or remove it.
bool KeepsEntriesOfOthers(const PathEntry& entry) {
  return IsFolder(entry) && (entry.mode & S_ISVTX) != 0;
}

// Returns the groups of this process. In a user namespace some may have no number of their own.
std::set<gid_t> GroupsOfProcess() {
  std::set<gid_t> groups = {0, getegid()};
  std::vector<gid_t> more(std::max(0, getgroups(0, nullptr)));
  const int count = getgroups(static_cast<int>(more.size()), more.data());
  groups.insert(more.begin(), more.begin() + std::max(0, count));
  return groups;
}

// Returns the error for an entry that `who` can change. `chmod` is the argument of chmod(1) that
// takes that right away; "" if the owner has it.
absl::Status ChangeableError(const PathEntry& entry, absl::string_view who,
                             absl::string_view chmod) {
  const std::string remedy =
      chmod.empty() ? "" : absl::StrCat("run `chmod ", chmod, " ", entry.path, "`, or ");
  return absl::FailedPreconditionError(absl::StrCat(
      who, " can change the ", IsFolder(entry) ? "folder " : "file ", entry.path,
      ", and with it the code that runs here: ", remedy, "use a copy in a folder of your own"));
}

absl::Status CheckEntry(const PathEntry& entry, const TrustedWriters& trusted) {
  if (trusted.users.count(entry.owner) == 0) {
    return ChangeableError(entry, absl::StrCat("user ", entry.owner, ", who owns it,"), "");
  }
  if (KeepsEntriesOfOthers(entry)) return absl::OkStatus();
  if ((entry.mode & S_IWOTH) != 0) return ChangeableError(entry, "every user", "o-w");
  if ((entry.mode & S_IWGRP) != 0 && trusted.groups.count(entry.group) == 0) {
    return ChangeableError(
        entry, absl::StrCat("group ", entry.group, ", of which you are no member,"), "g-w");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PathEntry>> EntriesOfPath(const std::string& path) {
  std::vector<PathEntry> entries;
  for (std::filesystem::path current = path;; current = current.parent_path()) {
    struct stat file;
    if (lstat(current.c_str(), &file) != 0) return absl::ErrnoToStatus(errno, current.string());
    entries.push_back({current.string(), file.st_uid, file.st_gid, file.st_mode});
    if (current == current.parent_path()) break;
  }
  std::reverse(entries.begin(), entries.end());
  return entries;
}

TrustedWriters WritersTrustedByProcess() {
  TrustedWriters trusted;
  trusted.users = {0, geteuid()};
  trusted.groups = GroupsOfProcess();
  const std::string program = ProgramPath();
  if (program.empty()) return trusted;
  const absl::StatusOr<std::vector<PathEntry>> entries = EntriesOfPath(program);
  if (!entries.ok()) return trusted;
  for (const PathEntry& entry : *entries) {
    trusted.users.insert(entry.owner);
    if (IsFolder(entry)) trusted.folders.insert(entry.path);
    if ((entry.mode & S_IWGRP) != 0 && !KeepsEntriesOfOthers(entry)) {
      trusted.groups.insert(entry.group);
    }
  }
  return trusted;
}

absl::Status CheckWriters(absl::Span<const PathEntry> entries, const TrustedWriters& trusted) {
  for (const PathEntry& entry : entries) {
    if (trusted.folders.count(entry.path) > 0) continue;
    RETURN_IF_ERROR(CheckEntry(entry, trusted));
  }
  return absl::OkStatus();
}

absl::Status CheckTrustedPath(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<PathEntry> entries, EntriesOfPath(path));
  return CheckWriters(entries, WritersTrustedByProcess());
}

}  // namespace tessera
