#include "tools/train/folder/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigName[] = "config.textproto";

enum class Config { kNone, kOfARun, kForeign };

// The owner of the config.textproto in a folder.
Config ConfigIn(const std::string& path) {
  std::ifstream file(absl::StrCat(path, "/", kConfigName), std::ios::binary);
  if (!file) return Config::kNone;
  std::string title(sizeof(kConfigTitle) - 1, '\0');
  file.read(&title[0], static_cast<std::streamsize>(title.size()));
  return title == kConfigTitle ? Config::kOfARun : Config::kForeign;
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
  return ConfigIn(path) == Config::kOfARun && !HoldsCheckpoint(path);
}

std::string MetricsPath(const std::string& run_folder) {
  return absl::StrCat(run_folder, "/metrics.jsonl");
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
  absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(path);
  if (absl::IsUnavailable(lock.status())) {
    return absl::UnavailableError(absl::StrCat("another process is training in ", path));
  }
  if (!lock.ok()) return unwritable(lock.status());
  // Under the lock, no other process can save a first checkpoint after these checks.
  if (!resuming && HoldsCheckpoint(path)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path, " already holds a run: choose another --out, or go on with --resume=", path));
  }
  if (!resuming && ConfigIn(path) == Config::kForeign) {
    return absl::AlreadyExistsError(absl::StrCat(path, " holds a ", kConfigName,
                                                 " that no run has written: choose another --out"));
  }
  return std::unique_ptr<RunFolder>(new RunFolder(path, made, *std::move(lock)));
}

RunFolder::~RunFolder() {
  // Fails, as intended, if the folder is not empty.
  if (made_) rmdir(path_.c_str());
}

absl::Status RunFolder::WriteText(const std::string& name, absl::string_view text) {
  const std::string path = absl::StrCat(path_, "/", name);
  RETURN_IF_ERROR(MakeFolders(fs::path(path).parent_path().string()));
  const std::string temporary = absl::StrCat(path, ".tmp");
  std::remove(temporary.c_str());
  absl::StatusOr<std::unique_ptr<DurableWriter>> writer = DurableWriter::Create(temporary);
  if (!writer.ok()) return writer.status();
  absl::Status status = (*writer)->Write(absl::MakeConstSpan(text.data(), text.size()));
  if (status.ok()) status = (*writer)->Finish();
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  if (!status.ok()) std::remove(temporary.c_str());
  return status;
}

}  // namespace tessera
