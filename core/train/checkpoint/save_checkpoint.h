// Writes checkpoints atomically.
//
// All files are written to a temporary folder beside the checkpoints; each file and then the folder
// are synced to the disk; the folder is renamed; its parent is synced. So after a crash, a kill or
// a full disk at any moment, every checkpoint that has a checkpoint's name is complete, and earlier
// ones are unchanged. Only then are old checkpoints removed. The next save removes the remains of a
// killed one.
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
  int64_t step = 0;           // names the folder
  int64_t batches = 0;        // the position in the data: global batches that training has taken
  int64_t state_version = 1;  // of the shapes of the model's states
  std::string data;           // the fingerprint of the training data, or ""
  std::vector<StateEntry> state;
  std::string plan;    // the completed Plan, in text form
  std::string config;  // the run's configuration, in text form
};

// Fills `out` with bytes [byte_offset, byte_offset + out.size()) of the global tensor of
// state[entry], row-major. An error ends the save and is returned by it.
using ReadState = std::function<absl::Status(int entry, int64_t byte_offset, absl::Span<char> out)>;

// One call of a ReadState.
struct StateChunk {
  int entry = 0;
  int64_t byte_offset = 0;
  int64_t bytes = 0;
};

struct SaveOptions {
  // The number of checkpoints that are kept: the new one, and the newest others that look complete
  // (LooksComplete). 0 keeps all. The disk must have room for one more.
  int64_t keep = 3;
  // The most bytes that one call of ReadState returns, rounded down to a multiple of 8, so that no
  // element is split. This is also all the memory that a save needs.
  int64_t chunk_bytes = int64_t{4} << 20;
  // If set, called with a description before each change on the disk. Tests end the process there.
  std::function<void(absl::string_view)> before_change;
};

struct SavedCheckpoint {
  std::string folder;
  int64_t bytes = 0;  // of all its files
  // Failures that do not affect the new checkpoint, such as an old one that could not be removed.
  // One line each.
  std::vector<std::string> warnings;
};

// The calls of ReadState that SaveCheckpoint will make, in order. One process writes; if others
// must help it to read the state (a gather), they follow this list. A save that fails makes only
// some of the calls: the writing process must then notify the others.
absl::StatusOr<std::vector<StateChunk>> ChunksInOrder(const std::vector<StateEntry>& state,
                                                      int64_t chunk_bytes);

// Returns InvalidArgument for contents that SaveCheckpoint would refuse: a step out of range, a
// state with a role, path or shape that cannot be saved, or texts that are too long to be read
// again. Lets a run fail before it begins.
absl::Status CheckContents(const CheckpointContents& contents);

// Saves to <run_folder>/checkpoints/step_<step>, and makes missing folders. A checkpoint of the
// same step is replaced once the new one is complete. Returns InvalidArgument for contents that
// cannot be saved, Unavailable if another process is saving to this run, and ResourceExhausted for
// a full disk; after an error, earlier checkpoints are unchanged. One thread of one process at a
// time.
absl::StatusOr<SavedCheckpoint> SaveCheckpoint(absl::string_view run_folder,
                                               const CheckpointContents& contents,
                                               const ReadState& read_state,
                                               const SaveOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_
