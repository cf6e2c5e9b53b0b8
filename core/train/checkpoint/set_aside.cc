#include "core/train/checkpoint/set_aside.h"

#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {
namespace {

std::string FreePath(const std::string& path) {
  std::string free = path;
  for (int i = 2; Exists(free); ++i) free = absl::StrCat(path, "-", i);
  return free;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SetAsideDamaged(absl::string_view run_folder,
                                                         absl::Span<const std::string> damaged) {
  std::set<std::string> known;  // names
  for (const std::string& folder : damaged) {
    known.insert(std::filesystem::path(folder).filename().string());
  }
  const std::string checkpoints = CheckpointsFolder(run_folder);
  ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(checkpoints));
  std::vector<std::string> lines;
  for (const FoundCheckpoint& each : found) {
    const std::string name = StepFolderName(each.step);
    // The next save restores or removes one that was being replaced.
    if (each.folder != absl::StrCat(checkpoints, "/", name)) continue;
    if (known.count(name) == 0 && !IsDamage(CheckComplete(each.folder))) continue;
    const std::string aside = FreePath(absl::StrCat(checkpoints, "/", kDamagedPrefix, name));
    RETURN_IF_ERROR(RenameFolder(each.folder, aside));
    lines.push_back(absl::StrCat("the damaged checkpoint ", name, " is now called ", aside,
                                 ", and is not among those that are kept"));
  }
  return lines;
}

}  // namespace tessera
