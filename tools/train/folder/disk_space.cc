#include "tools/train/folder/disk_space.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/posix/free_disk_space.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/checkpoint/checkpoint_folder.h"

namespace tessera {

int64_t SavesLeft(const RunConfig& config, int64_t done) {
  if (done >= config.steps()) return 0;
  if (config.save_every() <= 0) return 1;
  const int64_t last = config.steps() % config.save_every() == 0 ? 0 : 1;
  return config.steps() / config.save_every() - done / config.save_every() + last;
}

int64_t AddedCheckpoints(int64_t saves, int64_t keep, int64_t existing) {
  return keep <= 0 ? saves : std::min(saves, std::max<int64_t>(0, keep - existing) + 1);
}

absl::StatusOr<std::string> NoteOnDiskSpace(const std::string& run_folder, const RunConfig& config,
                                            int64_t done, int64_t bytes) {
  const int64_t free = FreeDiskSpace(run_folder);
  if (free < 0 || bytes <= 0) return "";
  if (free < bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk of ", run_folder, " has ", FormatBytes(free), " free, and a checkpoint takes ",
        FormatBytes(bytes), ": free some space there, or choose another folder with --out=DIR"));
  }
  const auto found = ListCheckpoints(CheckpointsFolder(run_folder));
  const int64_t existing = found.ok() ? static_cast<int64_t>(found->size()) : 0;
  const int64_t added =
      AddedCheckpoints(SavesLeft(config, done), config.keep_checkpoints(), existing);
  // Divides instead of multiplying: the product may not fit.
  const int64_t fitting = free / bytes;
  if (added <= fitting) return "";
  const std::string reason =
      config.keep_checkpoints() <= 0 ? "as all are kept" : "one while it is written";
  return absl::StrCat("the disk of ", run_folder, " has ", FormatBytes(free), " free, enough for ",
                      Counted(fitting, "checkpoint"), " of ", FormatBytes(bytes),
                      ", and the run adds ", added, " (", reason,
                      "): free some space there, or keep fewer with ",
                      "--set=keep_checkpoints=N, or save less often with --save_every=N");
}

}  // namespace tessera
