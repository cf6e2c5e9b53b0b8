// Writes the shards of a checkpoint that one rank owns. All ranks write at the same time, each to
// files of its own; see save_checkpoint.h for the order of a save.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_WRITE_SHARDS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_WRITE_SHARDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/shard_report.pb.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

// Fills `out` with bytes [byte_offset, byte_offset + out.size()) of shards[shard]: its elements one
// after another, row-major in its box. An error ends the save and is returned by it.
using ReadState = std::function<absl::Status(int shard, int64_t byte_offset, absl::Span<char> out)>;

struct WriteOptions {
  // The most bytes that one call of ReadState returns, rounded down to a multiple of 8, so that no
  // element is split. This is also the memory that a save needs.
  int64_t chunk_bytes = int64_t{4} << 20;
  // If set, called with a description before each change on the disk. Tests end the process there.
  std::function<void(absl::string_view)> before_change;
};

// Writes `shards` to new files in `folder` (CheckpointSave::folder, opened by OpenTemporaryFolder),
// and syncs their contents to the disk. Each element of each state must be in a shard of exactly
// one rank: if several ranks hold the same elements, the lowest writes them. `state` must be the
// same on all ranks, and CheckStates must accept it. Returns a report for rank 0, which contains
// the error if there is one. One thread at a time.
ShardReport WriteShards(const std::string& folder, int rank, int ranks,
                        const std::vector<StateEntry>& state, absl::Span<const OwnedShard> shards,
                        const ReadState& read_state, const WriteOptions& options = {});

// Returns the checksum of the paths, roles and types of all states.
std::string StatesChecksum(const std::vector<StateEntry>& state);

// Writes a new file by calling `write`, which passes the contents to `append`, and syncs it to the
// disk. Returns its record in the manifest.
using Append = std::function<absl::Status(absl::Span<const char> bytes)>;
absl::StatusOr<Manifest::File> WriteDurableFile(
    const Folder& folder, const std::string& name, const WriteOptions& options,
    const std::function<absl::Status(const Append& append)>& write);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_WRITE_SHARDS_H_
