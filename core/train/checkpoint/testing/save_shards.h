// Saves checkpoints of states that no engine holds, for tests.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_SAVE_SHARDS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_SAVE_SHARDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/shard_report.pb.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

// Fills `out` with bytes [byte_offset, byte_offset + out.size()) of shards[shard]: its elements one
// after another, row-major in its box. An error ends the save and is returned by it.
using ReadState = std::function<absl::Status(int shard, int64_t byte_offset, absl::Span<char> out)>;

// Writes `shards` as WriteStates (core/train/state/save_state.h) does those of an engine.
ShardReport WriteShards(const std::string& folder, int rank, int ranks,
                        const std::vector<StateEntry>& state, absl::Span<const OwnedShard> shards,
                        const ReadState& read_state, const WriteOptions& options = {});

// Saves all of each state, as one process: read_state's index is that of the state.
absl::StatusOr<SavedCheckpoint> SaveCheckpoint(const std::string& run_folder,
                                               const CheckpointContents& contents,
                                               const ReadState& read_state,
                                               const SaveOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_SAVE_SHARDS_H_
