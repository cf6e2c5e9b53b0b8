// Removes what killed saves have left behind.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_REMAINS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_REMAINS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/state_files.h"

namespace tessera {

// Removes the remains of killed saves from a folder of checkpoints, and restores a complete
// checkpoint that one of them was replacing. One whose replacement is damaged or cannot be read now
// is left as it is. Returns one line for each that cannot be removed or restored. No other process
// may save there.
absl::StatusOr<std::vector<std::string>> RemoveRemains(const Folder& checkpoints,
                                                       const WriteOptions& options = {});

// Removes a checkpoint. Renames its folder before: a checkpoint that is half removed must not have
// a checkpoint's name. Returns the errors of RemoveCheckpointFolder.
absl::Status DiscardCheckpoint(const Folder& checkpoints, const std::string& name,
                               const WriteOptions& options = {});

// Removes a folder with what a save writes in it. FailedPrecondition names an entry that no save
// has made, such as another folder, and InvalidArgument a link or file of this name; then nothing
// is removed.
absl::Status RemoveCheckpointFolder(const Folder& checkpoints, const std::string& name);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_REMAINS_H_
