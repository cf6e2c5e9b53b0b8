// A small state for tests of checkpoints. The step determines every byte of it.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_TEST_STATE_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_TEST_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/open_checkpoint.h"
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

// Parameters and optimizer state of all dtypes, with empty and scalar ones, 9 KB in all.
CheckpointContents ContentsForTest(int64_t step);

ReadState ReadStateForTest(int64_t step);
// Returns the reader for a rank that holds these shards.
ReadState ReadShardsForTest(int64_t step, const std::vector<StateEntry>& state,
                            std::vector<OwnedShard> shards);

// Returns the shards of one rank: a box of rows for every second state, and a range of elements for
// the others.
std::vector<OwnedShard> ShardsForTest(const std::vector<StateEntry>& state, int rank, int ranks);

// Writes the shards of one rank of the state of a step.
ShardReport WriteShardsForTest(const std::string& folder, int64_t step, int rank, int ranks,
                               const WriteOptions& options);

// Options with chunks smaller than most tensors, so that a save consists of many changes.
SaveOptions OptionsForTest(int keep);

// Saves the state of a step, as one process.
absl::StatusOr<SavedCheckpoint> SaveForTest(const std::string& run, int64_t step, int keep = 3);

// Saves the state of a step by several ranks, one after the other.
absl::StatusOr<SavedCheckpoint> SaveShardedForTest(const std::string& run, int64_t step, int ranks,
                                                   const SaveOptions& options);

// Returns the first difference between a checkpoint and the state saved at its step, or "" if they
// are equal.
std::string Difference(const Checkpoint& checkpoint);

// An empty folder of this name in the test's own folder.
std::string NewFolder(const std::string& name);

// Opens a folder, or a run's folder of checkpoints, which must exist.
Folder OpenForTest(const std::string& path);
Folder CheckpointsForTest(const std::string& run);

// Removes a file, or a folder and everything in it. Returns OK if nothing has this path.
absl::Status RemoveTree(const std::string& path);
absl::Status RenameFolder(const std::string& from, const std::string& to);
// Returns the names in a folder in alphabetical order.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, absl::string_view bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_TESTING_TEST_STATE_H_
