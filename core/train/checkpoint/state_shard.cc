#include "core/train/checkpoint/state_shard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera {

StateShard FullShard(const Shape& shape) { return StateShard(Box{Shape(shape.size(), 0), shape}); }

bool IsFull(const StateShard& shard, const Shape& shape) {
  return shard.HoldsBox() && shard.box.extent == shape;
}

std::string ShardToString(const StateShard& shard) {
  std::string text = "[";
  for (size_t d = 0; d < shard.box.start.size(); ++d) {
    const int64_t start = shard.box.start[d];
    absl::StrAppend(&text, d == 0 ? "" : ", ", start, ":", start + shard.box.extent[d]);
  }
  text += "]";
  if (!shard.HoldsBox()) absl::StrAppend(&text, "{", shard.begin, ":", shard.end, "}");
  return text;
}

Shape ShapeOfShard(const StateShard& shard) {
  return shard.HoldsBox() ? shard.box.extent : Shape{shard.size()};
}

absl::Status CheckShard(const StateShard& shard, const Shape& shape) {
  const Box& box = shard.box;
  bool inside = box.start.size() == shape.size() && box.extent.size() == shape.size();
  for (size_t d = 0; inside && d < shape.size(); ++d) {
    inside = box.start[d] >= 0 && box.start[d] <= shape[d] && box.extent[d] >= 0 &&
             box.extent[d] <= shape[d] - box.start[d];
  }
  if (!inside) {
    return absl::InvalidArgumentError(absl::StrCat("a shard of ", ShapeToString(box.extent), " at ",
                                                   ShapeToString(box.start),
                                                   " does not lie within ", ShapeToString(shape)));
  }
  const int64_t elements = NumElements(box.extent);
  if (shard.begin >= 0 && shard.begin <= shard.end && shard.end <= elements) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("elements ", shard.begin, " to ", shard.end,
                                                 " do not lie within a box of ", elements));
}

SharedRuns::Side SharedRuns::SideOf(const StateShard& shard, const Shape& start) {
  Side side = {-shard.begin, RowMajorStrides(shard.box.extent), shard.size()};
  for (size_t d = 0; d < start.size(); ++d) {
    side.offset += (start[d] - shard.box.start[d]) * side.strides[d];
  }
  return side;
}

SharedRuns::SharedRuns(const StateShard& first, const StateShard& second) {
  const Box &a = first.box, &b = second.box;
  const size_t rank = a.start.size();
  Shape start;  // of the intersection
  for (size_t d = 0; d < rank; ++d) {
    start.push_back(std::max(a.start[d], b.start[d]));
    const int64_t end = std::min(a.start[d] + a.extent[d], b.start[d] + b.extent[d]);
    extent_.push_back(std::max<int64_t>(end - start[d], 0));
  }
  // Dimensions from `complete` on have the same extent in both boxes and in the intersection.
  size_t complete = rank;
  while (complete > 0 && extent_[complete - 1] == a.extent[complete - 1] &&
         extent_[complete - 1] == b.extent[complete - 1]) {
    --complete;
  }
  if (NumElements(extent_) == 0) return;
  row_dim_ = complete == 0 ? 0 : complete - 1;
  rows_ = NumElements(absl::MakeConstSpan(extent_).first(row_dim_));
  length_ = NumElements(absl::MakeConstSpan(extent_).subspan(row_dim_));
  first_ = SideOf(first, start);
  second_ = SideOf(second, start);
  for (int64_t end = rows_; row_ < end;) {
    const int64_t middle = row_ + (end - row_) / 2;
    if (IsBefore(middle)) {
      row_ = middle + 1;
    } else {
      end = middle;
    }
  }
}

int64_t SharedRuns::Offset(const Side& side, int64_t row) const {
  int64_t offset = side.offset;
  for (size_t d = row_dim_; d-- > 0;) {
    offset += row % extent_[d] * side.strides[d];
    row /= extent_[d];
  }
  return offset;
}

SharedRun SharedRuns::RunOf(int64_t row) const {
  const int64_t first = Offset(first_, row), second = Offset(second_, row);
  const int64_t skipped = std::max({int64_t{0}, -first, -second});
  const int64_t end = std::min({length_, first_.size - first, second_.size - second});
  return {first + skipped, second + skipped, end - skipped};
}

bool SharedRuns::IsBefore(int64_t row) const {
  return std::min(Offset(first_, row), Offset(second_, row)) + length_ <= 0;
}

bool SharedRuns::IsAfter(int64_t row) const {
  return Offset(first_, row) >= first_.size || Offset(second_, row) >= second_.size;
}

std::optional<SharedRun> SharedRuns::Next() {
  while (row_ < rows_ && !IsAfter(row_)) {
    const SharedRun run = RunOf(row_++);
    if (run.count > 0) return run;
  }
  return std::nullopt;
}

bool ShardsOverlap(const StateShard& first, const StateShard& second) {
  return SharedRuns(first, second).Next().has_value();
}

}  // namespace tessera
