#include "core/train/checkpoint/remains.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {
namespace {

void BeforeChange(const WriteOptions& options, absl::string_view what) {
  if (options.before_change) options.before_change(what);
}

// Returns whether a save makes files of this name, or NFS, when an open file was removed.
bool MayBeNameOfSavedFile(absl::string_view name) {
  return name == kManifestFile || absl::EndsWith(name, ".safetensors") ||
         absl::EndsWith(name, ".textproto") || absl::StartsWith(name, ".nfs");
}

// Returns the names of the files in a folder if there is nothing else in it.
absl::StatusOr<std::vector<std::string>> FilesOfASave(const Folder& folder) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, folder.List());
  for (const std::string& name : names) {
    const bool is_folder = folder.OpenFolder(name).ok();
    if (MayBeNameOfSavedFile(name) && !is_folder) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("cannot remove ", folder.path(), ": it holds ", name,
                     ", which is no part of a checkpoint; move it away, or remove the folder"));
  }
  return names;
}

// Ends a replacement that was interrupted: removes the former checkpoint `name` if `replacement` is
// complete, restores it if there is no replacement, and leaves both otherwise.
absl::Status RestoreOrRemoveReplaced(const Folder& checkpoints, const std::string& name,
                                     const std::string& replacement, const WriteOptions& options) {
  ASSIGN_OR_RETURN(const Folder old, checkpoints.OpenFolder(name));
  if (checkpoints.Has(replacement)) {
    const absl::StatusOr<Folder> newer = checkpoints.OpenFolder(replacement);
    // The old one may be that from which the run resumes.
    if (!newer.ok() || !CheckComplete(*newer).ok()) return absl::OkStatus();
    BeforeChange(options, absl::StrCat("settle ", name));
    return DiscardCheckpoint(checkpoints, name, options);
  }
  const absl::Status complete = CheckComplete(old);
  if (!complete.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        old.path(), " is not restored: ", complete.message(), "; move it away, or remove it"));
  }
  BeforeChange(options, absl::StrCat("settle ", name));
  return checkpoints.Rename(name, replacement);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> RemoveRemains(const Folder& checkpoints,
                                                       const WriteOptions& options) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, checkpoints.List());
  for (const std::string& name : names) {
    absl::Status status;
    absl::string_view replacement = name;
    if (absl::StartsWith(name, kTemporaryPrefix)) {
      BeforeChange(options, absl::StrCat("remove ", name));
      status = RemoveCheckpointFolder(checkpoints, name);
    } else if (absl::ConsumePrefix(&replacement, kReplacedPrefix)) {
      status = RestoreOrRemoveReplaced(checkpoints, name, std::string(replacement), options);
    }
    if (!status.ok()) warnings.emplace_back(status.message());
  }
  return warnings;
}

absl::Status DiscardCheckpoint(const Folder& checkpoints, const std::string& name,
                               const WriteOptions& options) {
  ASSIGN_OR_RETURN(const Folder folder, checkpoints.OpenFolder(name));
  RETURN_IF_ERROR(FilesOfASave(folder).status());
  const std::string temporary = absl::StrCat(kTemporaryPrefix, name);
  BeforeChange(options, "rename an old checkpoint");
  RETURN_IF_ERROR(checkpoints.Rename(name, temporary));
  BeforeChange(options, "remove an old checkpoint");
  return RemoveCheckpointFolder(checkpoints, temporary);
}

absl::Status RemoveCheckpointFolder(const Folder& checkpoints, const std::string& name) {
  ASSIGN_OR_RETURN(const Folder folder, checkpoints.OpenFolder(name));
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOfASave(folder));
  for (const std::string& file : files) RETURN_IF_ERROR(folder.RemoveFile(file));
  return checkpoints.RemoveFolder(name);
}

}  // namespace tessera
