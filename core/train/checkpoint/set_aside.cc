#include "core/train/checkpoint/set_aside.h"

#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {
namespace {

// Returns `name`, or `name` with "-2", "-3", ... if the folder has such an entry.
std::string FreeName(const Folder& folder, const std::string& name) {
  std::string free = name;
  for (int i = 2; folder.Has(free); ++i) free = absl::StrCat(name, "-", i);
  return free;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SetAsideDamaged(const Folder& checkpoints,
                                                         absl::Span<const std::string> damaged) {
  std::set<std::string> known;  // names
  for (const std::string& folder : damaged) {
    known.insert(std::filesystem::path(folder).filename().string());
  }
  ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(checkpoints));
  std::vector<std::string> lines;
  for (const FoundCheckpoint& checkpoint : found) {
    // The next save restores or removes one that was being replaced.
    if (checkpoint.name != StepFolderName(checkpoint.step)) continue;
    if (known.count(checkpoint.name) == 0 && !IsDamage(CheckComplete(checkpoint.folder))) continue;
    const std::string aside = FreeName(checkpoints, absl::StrCat(kDamagedPrefix, checkpoint.name));
    RETURN_IF_ERROR(checkpoints.Rename(checkpoint.name, aside));
    lines.push_back(absl::StrCat("the damaged checkpoint ", checkpoint.name, " is now called ",
                                 checkpoints.PathOf(aside),
                                 ", and is not among those that are kept"));
  }
  return lines;
}

}  // namespace tessera
