// Assigns the shards that a rank writes to its files of a checkpoint, and to offsets in them.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/train/checkpoint/safetensors.h"
#include "core/train/checkpoint/state_entry.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

struct StateFile {
  std::string name;
  SafetensorsHeader header;
  std::vector<int> shards;  // for each tensor of the header, its index in the rank's list
};

// Checks the states of a checkpoint, whichever ranks hold them. InvalidArgument names a state with
// a role, path or shape that cannot be saved, or with the path of another state.
absl::Status CheckStates(const std::vector<StateEntry>& state);

// Returns a file for each role. The rank of a run of one writes both files, even if no state has
// the role; a rank of several writes only the files that hold something. Shards without elements
// are in no file. CheckStates must accept `state`. Returns InvalidArgument, with the state's path,
// if a shard exceeds its state or is listed twice.
absl::StatusOr<std::vector<StateFile>> ArrangeStateFiles(const std::vector<StateEntry>& state,
                                                         absl::Span<const OwnedShard> shards,
                                                         int rank, int ranks);

// Returns the name of a shard's tensor in its file: the state's path, followed by the box if the
// shard is not all of the state ("blocks.0.w[0:4, 2:8]").
std::string TensorNameOf(const StateEntry& entry, const StateShard& shard);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
