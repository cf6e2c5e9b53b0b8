// Plans the files in which a rank writes its shards of a checkpoint.
//
// Thread safety: value types and pure functions.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/safetensors.h"
#include "core/train/checkpoint/state_entry.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

struct WriteOptions {
  // The most bytes of state that are read at once, rounded down to a multiple of 8, so that no
  // element is split. This is also the memory that a save needs.
  int64_t chunk_bytes = int64_t{4} << 20;
  ChangeHook before_change;
};

// A file: the bytes of the header, and after them the tensors, one for each shard.
struct StateFile {
  std::string name;
  SafetensorsHeader header;
  std::vector<int> shards;  // for each tensor of the header, its index in the rank's list
};

// Bytes [offset, offset + bytes) of a tensor of a file.
struct StateChunk {
  int tensor = 0;  // its index in the file's header
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Checks the states of a checkpoint, whichever ranks hold them. InvalidArgument names a state with
// a role, path or shape that cannot be saved, or with the path of another state.
absl::Status CheckStates(const std::vector<StateEntry>& state);

// Returns a file for parameters and statistics, and one for optimizer state. The rank of a run of
// one writes both files, even if no state is in it; a rank of several writes only the files that
// hold something. Shards without elements are in no file. CheckStates must accept `state`. Returns
// InvalidArgument, with the state's path, if a shard exceeds its state or is listed twice.
absl::StatusOr<std::vector<StateFile>> PlanStateFiles(const std::vector<StateEntry>& state,
                                                      absl::Span<const OwnedShard> shards, int rank,
                                                      int ranks);

// Splits the tensors of a file, in the order of their bytes, into chunks of `chunk_bytes` at most,
// rounded as in WriteOptions, but not to 0.
std::vector<StateChunk> ChunksOf(const StateFile& file, int64_t chunk_bytes);

// Returns the error of a save that could not read a chunk, with the tensor's name.
absl::Status CannotRead(const StateFile& file, const StateChunk& chunk, const absl::Status& error);

// Returns the name of a shard's tensor in its file: the state's path, followed by the box if the
// shard is not all of the state ("blocks.0.w[0:4, 2:8]").
std::string TensorNameOf(const StateEntry& entry, const StateShard& shard);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_FILES_H_
