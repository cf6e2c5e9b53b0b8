#include "core/train/checkpoint/state_files.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

// Returns whether the file of a role holds a state: that of parameters holds statistics too.
bool IsInFile(const StateEntry& entry, absl::string_view role) {
  return (entry.role == kOptimizerRole) == (role == kOptimizerRole);
}

absl::StatusOr<StateFile> PlanFile(const std::vector<StateEntry>& state,
                                   absl::Span<const OwnedShard> shards, absl::string_view role) {
  StateFile file;
  std::vector<SafetensorsTensor> tensors;
  absl::flat_hash_map<std::string, int> shard_of_name;
  for (size_t i = 0; i < shards.size(); ++i) {
    const StateEntry& entry = state[shards[i].state];
    const StateShard& shard = shards[i].shard;
    if (!IsInFile(entry, role) || shard.size() == 0) continue;
    std::string name = TensorNameOf(entry, shard);
    tensors.push_back({name, {entry.type.dtype, ShapeOfShard(shard)}, 0, 0});
    shard_of_name.emplace(std::move(name), static_cast<int>(i));
  }
  ASSIGN_OR_RETURN(file.header, MakeSafetensorsHeader(std::move(tensors)));
  for (const SafetensorsTensor& tensor : file.header.tensors) {
    file.shards.push_back(shard_of_name.at(tensor.name));
  }
  return file;
}

}  // namespace

absl::Status CheckStates(const std::vector<StateEntry>& state) {
  absl::flat_hash_set<absl::string_view> paths;
  for (const StateEntry& entry : state) {
    if (!IsStateRole(entry.role)) {
      return absl::InvalidArgumentError(absl::StrCat("the state ", Quote(entry.path),
                                                     " has the role ", Quote(entry.role), "; ",
                                                     kStateRoles, " would be right"));
    }
    if (!paths.insert(entry.path).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two states have the path ", Quote(entry.path)));
    }
  }
  for (const char* role : {kParameterRole, kOptimizerRole}) {
    std::vector<SafetensorsTensor> tensors;
    for (const StateEntry& entry : state) {
      if (IsInFile(entry, role)) tensors.push_back({entry.path, entry.type, 0, 0});
    }
    ASSIGN_OR_RETURN(const SafetensorsHeader header, MakeSafetensorsHeader(std::move(tensors)));
    RETURN_IF_ERROR(CheckTextLength(absl::StrCat("the header of ", StateFileName(role, 0, 1)),
                                    header.bytes.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StateFile>> PlanStateFiles(const std::vector<StateEntry>& state,
                                                      absl::Span<const OwnedShard> shards, int rank,
                                                      int ranks) {
  for (const OwnedShard& owned : shards) {
    if (owned.state < 0 || owned.state >= static_cast<int>(state.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("a shard of state ", owned.state, " of ", state.size()));
    }
    const StateEntry& entry = state[owned.state];
    const absl::Status status = CheckShard(owned.shard, entry.type.shape);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the state ", Quote(entry.path), ": ", status.message()));
  }
  std::vector<StateFile> files;
  for (const char* role : {kParameterRole, kOptimizerRole}) {
    ASSIGN_OR_RETURN(StateFile file, PlanFile(state, shards, role));
    if (ranks > 1 && file.shards.empty()) continue;
    file.name = StateFileName(role, rank, ranks);
    RETURN_IF_ERROR(
        CheckTextLength(absl::StrCat("the header of ", file.name), file.header.bytes.size()));
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<StateChunk> ChunksOf(const StateFile& file, int64_t chunk_bytes) {
  const int64_t most = std::max<int64_t>(chunk_bytes / 8 * 8, 8);
  std::vector<StateChunk> chunks;
  for (size_t i = 0; i < file.header.tensors.size(); ++i) {
    const int64_t bytes = file.header.tensors[i].end - file.header.tensors[i].begin;
    for (int64_t offset = 0; offset < bytes; offset += most) {
      chunks.push_back({static_cast<int>(i), offset, std::min(most, bytes - offset)});
    }
  }
  return chunks;
}

absl::Status CannotRead(const StateFile& file, const StateChunk& chunk, const absl::Status& error) {
  return absl::Status(
      error.code(),
      absl::StrCat("cannot read bytes ", chunk.offset, " to ", chunk.offset + chunk.bytes, " of ",
                   Quote(file.header.tensors[chunk.tensor].name), ": ", error.message()));
}

std::string TensorNameOf(const StateEntry& entry, const StateShard& shard) {
  if (IsFull(shard, entry.type.shape)) return entry.path;
  return absl::StrCat(entry.path, ShardToString(shard));
}

}  // namespace tessera
