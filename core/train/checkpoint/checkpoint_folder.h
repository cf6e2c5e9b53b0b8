// The folders of a run's checkpoints.
//
//   <run>/checkpoints/step_00000120/           one checkpoint
//       manifest.json                          see manifest.h
//       parameters.safetensors                 of one process
//       optimizer.safetensors
//       parameters-rank00003.safetensors       of each rank of several, instead: the shards that it
//       optimizer-rank00003.safetensors        wrote, if there are any
//       plan.textproto
//       config.textproto
//   <run>/checkpoints/.tmp-...                 a checkpoint that is being written or removed
//   <run>/checkpoints/.old-step_00000120       see ReplaceFolder in durable_file.h
//   <run>/checkpoints/damaged-step_00000120    a damaged one, see set_aside.h
//
// A folder with the name of a checkpoint holds a complete one: it got its name after all its files
// were on the disk.
//
// A run writes and removes only below its own folder: "checkpoints" and what lies in it are opened
// without following links (core/posix/folder.h).
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/folder.h"

namespace tessera {

inline constexpr char kCheckpointsName[] = "checkpoints";
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kPlanFile[] = "plan.textproto";
inline constexpr char kConfigFile[] = "config.textproto";

inline constexpr char kTemporaryPrefix[] = ".tmp-";
inline constexpr char kReplacedPrefix[] = ".old-";
inline constexpr char kDamagedPrefix[] = "damaged-";

// Returns the name of the file in which a rank saves its states of a role (state_entry.h).
std::string StateFileName(absl::string_view role, int rank, int ranks);

// "step_00000120", with more than eight digits if the step needs them.
std::string StepFolderName(int64_t step);

// Returns the step in the name of a checkpoint's folder (also if it was moved aside to be
// replaced), or -1 if the folder has another kind of name.
int64_t StepOfFolder(absl::string_view folder);

// "<run>/checkpoints"
std::string CheckpointsFolder(absl::string_view run_folder);

// Opens the folder of a save in progress by its path, <run>/checkpoints/.tmp-..., on any rank.
absl::StatusOr<Folder> OpenTemporaryFolder(const std::string& path);

struct FoundCheckpoint {
  int64_t step = 0;
  std::string name;
  std::string folder;  // its path
};

// Lists the checkpoints in a folder of checkpoints (not in a run's folder) by their names, newest
// first, and opens none. A checkpoint that was being replaced comes after its replacement. Returns
// an error if the folder cannot be listed.
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const Folder& checkpoints);
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& checkpoints_folder);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
