#include "tools/train/folder/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigName[] = "config.textproto";

enum class Config { kNone, kOfARun, kForeign };

// Returns who has written the config.textproto in a folder.
Config ConfigIn(const Folder& folder) {
  if (!folder.Has(kConfigName)) return Config::kNone;
  const absl::StatusOr<std::string> title = folder.ReadStart(kConfigName, sizeof(kConfigTitle) - 1);
  return title.ok() && *title == kConfigTitle ? Config::kOfARun : Config::kForeign;
}

// Checks the folder of checkpoints, if there is one, before a run does any work.
absl::Status CheckCheckpointsFolder(const Folder& run) {
  if (!run.Has(kCheckpointsName)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Folder checkpoints, run.OpenFolder(kCheckpointsName));
  return checkpoints.CheckOwner();
}

// Replaces a file of this folder itself.
absl::Status ReplaceFile(const Folder& folder, const std::string& name, absl::string_view text) {
  const std::string temporary = absl::StrCat(name, ".tmp");
  // A killed run may have left one.
  if (folder.Has(temporary)) RETURN_IF_ERROR(folder.RemoveFile(temporary));
  absl::Status status = WriteDurableFile(folder, temporary, text).status();
  if (status.ok()) status = folder.Rename(temporary, name);
  if (!status.ok()) folder.RemoveFile(temporary).IgnoreError();
  return status;
}

absl::Status WriteBelow(const Folder& folder, const std::string& name, absl::string_view text) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return ReplaceFile(folder, name, text);
  ASSIGN_OR_RETURN(const Folder below, folder.OpenOrCreateFolder(name.substr(0, slash)));
  return WriteBelow(below, name.substr(slash + 1), text);
}

}  // namespace

std::string NewRunPath(absl::string_view model, std::time_t now) {
  std::tm local = {};
  localtime_r(&now, &local);
  char time[32];
  std::strftime(time, sizeof(time), "%Y%m%d-%H%M%S", &local);
  const std::string path = UserPath(absl::StrCat("runs/", model, "-", time));
  std::string free = path;
  for (int i = 2; Exists(free); ++i) free = absl::StrCat(path, "-", i);
  return free;
}

RunPath RunOf(const std::string& path) {
  const fs::path given = path;
  const std::string checkpoints = fs::path(CheckpointsFolder("x")).filename().string();
  if (given.filename() == checkpoints) return {given.parent_path().string(), false};
  if (given.parent_path().filename() == checkpoints) {
    return {given.parent_path().parent_path().string(), true};
  }
  // A checkpoint that was moved elsewhere has no run.
  return {path, Exists(absl::StrCat(path, "/", kManifestFile))};
}

bool HoldsCheckpoint(const std::string& path) {
  if (Exists(absl::StrCat(path, "/", kManifestFile))) return true;
  const absl::StatusOr<std::vector<FoundCheckpoint>> found =
      ListCheckpoints(CheckpointsFolder(path));
  return found.ok() ? !found->empty() : !absl::IsNotFound(found.status());
}

bool HoldsRunWithoutCheckpoint(const std::string& path) {
  const absl::StatusOr<Folder> folder = Folder::Open(path);
  return folder.ok() && ConfigIn(*folder) == Config::kOfARun && !HoldsCheckpoint(path);
}

bool SameFolder(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Open(const std::string& path, bool resuming) {
  const bool made = !Exists(path);
  const auto unwritable = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("cannot make the run folder ", path, ": ", status.message()));
  };
  absl::Status status = MakeFolders(path);
  if (!status.ok()) return unwritable(status);
  absl::StatusOr<Folder> folder = Folder::Open(path);
  if (!folder.ok()) return unwritable(folder.status());
  RETURN_IF_ERROR(folder->CheckOwner());
  RETURN_IF_ERROR(CheckCheckpointsFolder(*folder));
  absl::StatusOr<FileDescriptor> lock = folder->Lock();
  if (absl::IsUnavailable(lock.status())) {
    return absl::UnavailableError(absl::StrCat("another process is training in ", path));
  }
  if (!lock.ok()) return unwritable(lock.status());
  // Under the lock, no other process can save a first checkpoint after these checks.
  if (!resuming && HoldsCheckpoint(path)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path, " already holds a run: choose another --out, or go on with --resume=", path));
  }
  if (!resuming && ConfigIn(*folder) == Config::kForeign) {
    return absl::AlreadyExistsError(absl::StrCat(path, " holds a ", kConfigName,
                                                 " that no run has written: choose another --out"));
  }
  return std::unique_ptr<RunFolder>(new RunFolder(*std::move(folder), made, *std::move(lock)));
}

RunFolder::~RunFolder() {
  // Fails, as intended, if the folder is not empty.
  if (made_) rmdir(path().c_str());
}

std::vector<std::string> RunFolder::Notes() const {
  std::vector<std::string> notes = {folder_.OthersWhoCanWrite()};
  const absl::StatusOr<Folder> checkpoints = folder_.OpenFolder(kCheckpointsName);
  if (checkpoints.ok()) notes.push_back(checkpoints->OthersWhoCanWrite());
  notes.erase(std::remove(notes.begin(), notes.end(), ""), notes.end());
  return notes;
}

absl::Status RunFolder::WriteText(const std::string& name, absl::string_view text) {
  return WriteBelow(folder_, name, text);
}

void RunFolder::Remove(const std::string& name) { folder_.RemoveFile(name).IgnoreError(); }

}  // namespace tessera
