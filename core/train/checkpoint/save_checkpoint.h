// Writing checkpoints that cannot be half-written.
//
// Everything goes to a temporary folder beside the checkpoints; each file and then the folder are
// synced to the disk; the folder gets its name; the folder above is synced. So after a crash, a
// kill or a full disk at any moment, each checkpoint that has a name is whole, and those from
// before are as they were. Only then are old ones removed. What a killed save left behind is
// removed by the next one.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

struct CheckpointContents {
  int64_t step = 0;     // names the folder
  int64_t batches = 0;  // position in the data: global batches that training has taken
  std::string data;     // the fingerprint of the training data, or ""
  std::vector<StateEntry> state;
  std::string plan;    // the completed Plan, in text form
  std::string config;  // how the run was asked for, in text form
};

// Fills `out` with bytes [byte_offset, byte_offset + out.size()) of state[entry], of the whole
// tensor, row-major. An error ends the save and is handed on.
using ReadState = std::function<absl::Status(int entry, int64_t byte_offset, absl::Span<char> out)>;

// One call of a ReadState.
struct StateChunk {
  int entry = 0;
  int64_t byte_offset = 0;
  int64_t bytes = 0;
};

struct SaveOptions {
  // How many checkpoints stay: the new one, and the newest others that look whole (right manifest,
  // right sizes). 0: all. There must be room on the disk for one more.
  int64_t keep = 3;
  // The most that ReadState is asked for at once, rounded down to a multiple of 8, so that no
  // element is cut. This is also all the memory that a save takes.
  int64_t chunk_bytes = int64_t{4} << 20;
  // If set, called before each change on the disk with words for it. Tests end the process there.
  std::function<void(absl::string_view)> before_change;
};

struct SavedCheckpoint {
  std::string folder;
  int64_t bytes = 0;  // of all its files
  // What went wrong and does not matter for the new checkpoint, such as an old one that could not
  // be removed. One line each.
  std::vector<std::string> warnings;
};

// The calls of ReadState that SaveCheckpoint will make, in order. Only one process writes; where
// others must help it to get at the state (a gather), they follow this list. If the save ends
// early, the rest of the list was not asked for: whoever gathers must tell the others.
absl::StatusOr<std::vector<StateChunk>> ChunksInOrder(const std::vector<StateEntry>& state,
                                                      int64_t chunk_bytes);

// InvalidArgument for contents that SaveCheckpoint would refuse: a step below 0, a state that has a
// role, path or shape that cannot be saved, or texts that are too long to be read again. To be
// asked before a run begins.
absl::Status CheckContents(const CheckpointContents& contents);

// Saves to <run_folder>/checkpoints/step_<step>; folders are made where they are missing. A
// checkpoint of the same step is replaced, when the new one is whole. InvalidArgument for contents
// that cannot be saved, Unavailable if another process is saving to this run, ResourceExhausted for
// a full disk; after an error, what was there before is as it was. One thread of one process at a
// time.
absl::StatusOr<SavedCheckpoint> SaveCheckpoint(absl::string_view run_folder,
                                               const CheckpointContents& contents,
                                               const ReadState& read_state,
                                               const SaveOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_
