// Assigns state to the files of a checkpoint, and to offsets in them.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/train/checkpoint/safetensors.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

struct StateFile {
  std::string name;
  SafetensorsHeader header;
  std::vector<int> entries;  // for each tensor of the header, its index in the state
};

// Returns a file for each role, even if no state has it. InvalidArgument names a state with a role,
// path or shape that cannot be saved, or with the path of another state.
absl::StatusOr<std::vector<StateFile>> ArrangeStateFiles(const std::vector<StateEntry>& state);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
