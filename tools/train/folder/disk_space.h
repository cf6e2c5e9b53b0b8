// Whether the checkpoints of a run fit on its disk.
#ifndef TESSERA_TOOLS_TRAIN_FOLDER_DISK_SPACE_H_
#define TESSERA_TOOLS_TRAIN_FOLDER_DISK_SPACE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Returns the number of checkpoints that a run saves after step `done`.
int64_t SavesLeft(const RunConfig& config, int64_t done);

// Returns the most checkpoints that a run adds at a time to `existing` ones in its folder: one more
// than it keeps, because old ones are removed after a new one is complete.
int64_t AddedCheckpoints(int64_t saves, int64_t keep, int64_t existing);

// Returns a note for the user if the run folder's disk has no room for all checkpoints, of `bytes`
// each, that a run adds after step `done`; "" if it has, or if the free space is not known.
// ResourceExhausted if there is no room even for the first one.
absl::StatusOr<std::string> NoteOnDiskSpace(const std::string& run_folder, const RunConfig& config,
                                            int64_t done, int64_t bytes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FOLDER_DISK_SPACE_H_
