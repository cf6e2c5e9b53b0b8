// Where checkpoints lie, and which of them there are.
//
//   <run>/checkpoints/step_00000120/           one checkpoint
//       manifest.json                          what it is: manifest.h
//       parameters.safetensors
//       optimizer.safetensors
//       plan.textproto
//       config.textproto
//   <run>/checkpoints/.tmp-...                 what is being written or removed
//   <run>/checkpoints/.old-step_00000120       see ReplaceFolder in durable_file.h
//
// A folder with the name of a checkpoint is a whole one: it got its name when all in it was on the
// disk.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kParametersFile[] = "parameters.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kPlanFile[] = "plan.textproto";
inline constexpr char kConfigFile[] = "config.textproto";

inline constexpr char kTemporaryPrefix[] = ".tmp-";
inline constexpr char kReplacedPrefix[] = ".old-";

// "step_00000120"; more digits where eight are too few.
std::string StepFolderName(int64_t step);

// The step in the name of a checkpoint's folder, also of one that was put aside to be replaced; -1
// for a folder that has another name.
int64_t StepOfFolder(absl::string_view folder);

// "<run>/checkpoints"
std::string CheckpointsFolder(absl::string_view run_folder);

struct FoundCheckpoint {
  int64_t step = 0;
  std::string folder;  // the whole path
};

// The checkpoints in a folder of them (not in a run's folder), the newest first, by name alone:
// nothing is opened. One that was being replaced stands after the one that was to take its place.
// An error if the folder cannot be listed.
absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(absl::string_view checkpoints_folder);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H_
