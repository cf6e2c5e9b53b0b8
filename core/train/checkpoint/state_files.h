// Which state goes to which file of a checkpoint, and where in it.
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
  std::vector<int> entries;  // of each tensor of the header: which of the state it is
};

// A file for each role, also where no state has it. InvalidArgument names the state that has a
// role, a path or a shape that cannot be saved, or a path that another one has too.
absl::StatusOr<std::vector<StateFile>> ArrangeStateFiles(const std::vector<StateEntry>& state);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
