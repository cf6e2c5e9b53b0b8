// Finds the shards of a checkpoint in its files.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_LOCATE_SHARDS_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_LOCATE_SHARDS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"

namespace tessera {

// Returns the first byte of each shard of each state in its file (Manifest::shards). `files` are
// those of the manifest, in its order. Reads the header of each file that holds a shard. DataLoss
// if a header is damaged or holds no tensor of the shard's name, dtype and shape.
absl::StatusOr<std::vector<std::vector<int64_t>>> LocateShards(
    const Manifest& manifest, absl::Span<const std::unique_ptr<FileReader>> files);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_LOCATE_SHARDS_H_
