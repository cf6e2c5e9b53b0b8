// Shards of a global tensor: what one rank holds of it, or what one file of a checkpoint holds.
//
// Thread safety: value types and pure functions.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_SHARD_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_SHARD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/layout/mesh_layout.h"
#include "core/tensor/shape.h"

namespace tessera {

// Elements [begin, end) of a box of a global tensor, counted row-major within the box. The range is
// all of the box, unless the tensor belongs to a flat group. Then the box is the rank's part along
// the other axes of the mesh, and the rank holds a range of its elements.
struct StateShard {
  Box box;
  int64_t begin = 0;
  int64_t end = 0;

  StateShard() = default;
  // All elements of the box.
  explicit StateShard(Box all) : box(std::move(all)), end(NumElements(box.extent)) {}
  StateShard(Box of, int64_t first, int64_t last) : box(std::move(of)), begin(first), end(last) {}

  int64_t size() const { return end - begin; }
  bool HoldsBox() const { return begin == 0 && end == NumElements(box.extent); }
  // Elements [first, last) of this shard.
  StateShard Part(int64_t first, int64_t last) const { return {box, begin + first, begin + last}; }
};

// All elements of a tensor of this shape.
StateShard FullShard(const Shape& shape);

// Returns whether the shard is FullShard(shape).
bool IsFull(const StateShard& shard, const Shape& shape);

// Returns "[0:4, 2:8]" for a box, and "[0:4, 2:8]{3:9}" for elements 3 to 8 of that box.
std::string ShardToString(const StateShard& shard);

// Returns the shape of a shard's tensor in a file: that of its box, or one dimension if the shard
// is a range of the box.
Shape ShapeOfShard(const StateShard& shard);

// Returns InvalidArgument if the box exceeds a tensor of this shape, or the range exceeds the box.
// The tensor must have fewer than 2^63 elements.
absl::Status CheckShard(const StateShard& shard, const Shape& shape);

// `count` elements that are contiguous in both of two shards. They begin at element `first` of the
// first shard and at element `second` of the second one.
struct SharedRun {
  int64_t first = 0;
  int64_t second = 0;
  int64_t count = 0;
};

// The runs of elements that two shards of one tensor share, in rising order:
//
//   SharedRuns runs(saved, wanted);
//   while (const std::optional<SharedRun> run = runs.Next()) ...
//
// All calls of Next take time in proportion to the number of runs, which are rows of the boxes'
// intersection, joined where both boxes hold complete rows.
class SharedRuns {
 public:
  SharedRuns(const StateShard& first, const StateShard& second);

  // Returns the next run, or nullopt after the last one.
  std::optional<SharedRun> Next();

 private:
  // The position of the intersection's rows in one of the shards.
  struct Side {
    int64_t offset = 0;  // of the first row; negative if it is before the shard's range
    Strides strides;     // of the box
    int64_t size = 0;    // of the shard
  };

  // `start` is that of the intersection.
  static Side SideOf(const StateShard& shard, const Shape& start);
  // Returns the position of a row's first element in a shard; negative if it is before the range.
  int64_t Offset(const Side& side, int64_t row) const;
  // Returns the elements of a row that both shards hold; their count may be 0 or negative.
  SharedRun RunOf(int64_t row) const;
  // Return whether all of a row is before, or after, the range of one of the shards. Rows are in
  // rising order in both.
  bool IsBefore(int64_t row) const;
  bool IsAfter(int64_t row) const;

  Shape extent_;        // of the intersection
  size_t row_dim_ = 0;  // a row consists of the dimensions from here on
  int64_t rows_ = 0;
  int64_t length_ = 0;  // of a row, in elements
  int64_t row_ = 0;     // the next one
  Side first_, second_;
};

// Returns whether two shards of one tensor have an element in common.
bool ShardsOverlap(const StateShard& first, const StateShard& second);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_SHARD_H_
