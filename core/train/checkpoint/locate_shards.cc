#include "core/train/checkpoint/locate_shards.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/safetensors.h"
#include "core/train/checkpoint/state_files.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

// A shard of a manifest.
struct ShardIndex {
  size_t state = 0;
  size_t shard = 0;
};

struct TensorsOfFile {
  absl::flat_hash_map<std::string, SafetensorsTensor> tensors;  // by name
  int64_t data_offset = 0;
};

absl::StatusOr<TensorsOfFile> ReadTensors(const FileReader& file) {
  TensorsOfFile result;
  ASSIGN_OR_RETURN(const std::string prefix,
                   file.ReadStart(std::min(kSafetensorsPrefixBytes, file.bytes())));
  ASSIGN_OR_RETURN(const int64_t json_bytes, SafetensorsJsonBytes(prefix, file.bytes()));
  if (json_bytes > kMaxTextBytes) {
    return absl::DataLossError(absl::StrCat("its header has ", json_bytes, " bytes, and at most ",
                                            kMaxTextBytes, " are possible"));
  }
  result.data_offset = kSafetensorsPrefixBytes + json_bytes;
  ASSIGN_OR_RETURN(const std::string start, file.ReadStart(result.data_offset));
  ASSIGN_OR_RETURN(std::vector<SafetensorsTensor> tensors,
                   ParseSafetensorsJson(absl::string_view(start).substr(kSafetensorsPrefixBytes),
                                        file.bytes() - result.data_offset));
  for (SafetensorsTensor& tensor : tensors) {
    std::string name = tensor.name;
    result.tensors.emplace(std::move(name), std::move(tensor));
  }
  return result;
}

absl::StatusOr<int64_t> LocateShard(const StateEntry& entry, const StateShard& shard,
                                    const TensorsOfFile& file) {
  const std::string name = TensorNameOf(entry, shard);
  const TensorType type = {entry.type.dtype, ShapeOfShard(shard)};
  const auto tensor = file.tensors.find(name);
  if (tensor != file.tensors.end() && tensor->second.type == type) {
    return file.data_offset + tensor->second.begin;
  }
  return absl::DataLossError(absl::StrCat(
      "it has ", tensor == file.tensors.end() ? "no tensor" : TypeToString(tensor->second.type),
      " ", Quote(name), ", and should have a ", TypeToString(type)));
}

absl::Status LocateInFile(const Manifest& manifest, absl::Span<const ShardIndex> shards,
                          const FileReader& file, std::vector<std::vector<int64_t>>* offsets) {
  ASSIGN_OR_RETURN(const TensorsOfFile tensors, ReadTensors(file));
  for (const auto& [state, shard] : shards) {
    ASSIGN_OR_RETURN((*offsets)[state][shard],
                     LocateShard(manifest.state[state], manifest.shards[state][shard], tensors));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int64_t>>> LocateShards(
    const Manifest& manifest, absl::Span<const std::unique_ptr<FileReader>> files) {
  // Reads file by file, so that only one file's list of tensors is in memory at a time.
  std::vector<std::vector<ShardIndex>> shards_of_file(files.size());
  std::vector<std::vector<int64_t>> offsets(manifest.state.size());
  for (size_t i = 0; i < manifest.state.size(); ++i) {
    const std::vector<int>& shard_files = manifest.shard_files[i];
    offsets[i].resize(shard_files.size());
    for (size_t j = 0; j < shard_files.size(); ++j) {
      shards_of_file[shard_files[j]].push_back({i, j});
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (shards_of_file[i].empty()) continue;
    const absl::Status status = LocateInFile(manifest, shards_of_file[i], *files[i], &offsets);
    if (status.ok()) continue;
    // An unknown dtype is DataLoss too, because Tessera writes none.
    return absl::DataLossError(
        absl::StrCat("the file ", manifest.files[i].name, ": ", status.message()));
  }
  return offsets;
}

}  // namespace tessera
