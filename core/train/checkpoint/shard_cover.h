// Checks that shards hold each element of a tensor once.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_COVER_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_COVER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

// Returns OK if each element of a tensor of this shape is in one of the shards. Returns
// InvalidArgument if a shard exceeds the tensor, if the shards together have another number of
// elements than the tensor, or if two of them overlap. Takes time in proportion to the number of
// shards. The probability that overlapping shards are accepted is below 2^-50 for any input.
//
// Thread safety: a pure function, apart from the random numbers that it uses.
absl::Status CheckCover(const Shape& shape, absl::Span<const StateShard> shards);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SHARD_COVER_H_
