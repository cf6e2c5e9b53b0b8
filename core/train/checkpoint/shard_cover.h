// Checks that shards hold each element of a tensor once.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_COVER_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_COVER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

// Returns OK if each element of a tensor of this shape is in one of the shards. Returns
// InvalidArgument if a shard does not lie within the tensor, or the shards have another number of
// elements, or two of them overlap. Takes time in proportion to the number of shards, and accepts
// shards that overlap with a probability below 2^-50, whatever they are.
//
// Thread safety: a pure function, but for that chance.
absl::Status CheckCover(const Shape& shape, absl::Span<const StateShard> shards);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_COVER_H_
