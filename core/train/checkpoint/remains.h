// Removes what killed saves have left behind.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_REMAINS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_REMAINS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/train/checkpoint/write_shards.h"

namespace tessera {

// Removes the remains of killed saves from a folder of checkpoints, and restores a checkpoint that
// one of them was replacing. One whose replacement is damaged or cannot be read now is left as it
// is. If there is no such folder, there are no remains. Returns one line for each that cannot be
// removed. No other process may save there.
absl::StatusOr<std::vector<std::string>> RemoveRemains(const std::string& checkpoints_folder,
                                                       const WriteOptions& options = {});

// Removes a checkpoint. Renames its folder before: a checkpoint that is half removed must not have
// a checkpoint's name.
absl::Status DiscardCheckpoint(const std::string& folder, const WriteOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_REMAINS_H_
