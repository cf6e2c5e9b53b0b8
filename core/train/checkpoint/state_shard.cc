#include "core/train/checkpoint/state_shard.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// The rows of the intersection of two boxes. A row is a range of consecutive elements in both.
class SharedRows {
 public:
  SharedRows(const StateShard& first, const StateShard& second) : first_(first), second_(second) {
    const size_t rank = first.box.start.size();
    for (size_t d = 0; d < rank; ++d) {
      const int64_t start = std::max(first.box.start[d], second.box.start[d]);
      const int64_t end = std::min(first.box.start[d] + first.box.extent[d],
                                   second.box.start[d] + second.box.extent[d]);
      start_.push_back(start);
      extent_.push_back(std::max<int64_t>(end - start, 0));
    }
    // Dimensions from `complete` on have the same extent in both boxes and in the intersection.
    size_t complete = rank;
    while (complete > 0 && extent_[complete - 1] == first.box.extent[complete - 1] &&
           extent_[complete - 1] == second.box.extent[complete - 1]) {
      --complete;
    }
    row_dim_ = complete == 0 ? 0 : complete - 1;
    rows_ = NumElements(absl::MakeConstSpan(extent_).first(row_dim_));
    length_ = NumElements(absl::MakeConstSpan(extent_).subspan(row_dim_));
    if (length_ == 0) rows_ = 0;
  }

  int64_t rows() const { return rows_; }

  // Returns the elements of a row that both shards hold; their count may be 0 or negative.
  SharedRun RunOf(int64_t row) const {
    const int64_t in_first = Offset(first_, row), in_second = Offset(second_, row);
    const int64_t skipped = std::max({int64_t{0}, -in_first, -in_second});
    const int64_t end = std::min({length_, first_.size() - in_first, second_.size() - in_second});
    return {in_first + skipped, in_second + skipped, end - skipped};
  }

  // Returns whether all of a row is before the range of one of the shards. Rows are in rising order
  // in both.
  bool Before(int64_t row) const {
    return std::min(Offset(first_, row), Offset(second_, row)) + length_ <= 0;
  }
  // Returns whether all of a row is after the range of one of the shards.
  bool After(int64_t row) const {
    return Offset(first_, row) >= first_.size() || Offset(second_, row) >= second_.size();
  }

 private:
  // Returns the position of a row's first element in a shard; negative if it is before the shard's
  // range.
  int64_t Offset(const StateShard& shard, int64_t row) const {
    int64_t offset = 0, stride = 1;
    for (size_t d = start_.size(); d-- > 0;) {
      int64_t index = start_[d] - shard.box.start[d];
      if (d < row_dim_) {
        index += row % extent_[d];
        row /= extent_[d];
      }
      offset += index * stride;
      stride *= shard.box.extent[d];
    }
    return offset - shard.begin;
  }

  const StateShard& first_;
  const StateShard& second_;
  Shape start_, extent_;  // of the intersection
  size_t row_dim_ = 0;    // a row consists of the dimensions from here on
  int64_t rows_ = 1;
  int64_t length_ = 1;  // of a row, in elements
};

}  // namespace

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

absl::Status ForEachSharedRun(const StateShard& first, const StateShard& second,
                              const std::function<absl::Status(const SharedRun& run)>& visit) {
  const SharedRows rows(first, second);
  int64_t row = 0;
  for (int64_t end = rows.rows(); row < end;) {
    const int64_t middle = row + (end - row) / 2;
    if (rows.Before(middle)) {
      row = middle + 1;
    } else {
      end = middle;
    }
  }
  for (; row < rows.rows() && !rows.After(row); ++row) {
    const SharedRun run = rows.RunOf(row);
    if (run.count > 0) RETURN_IF_ERROR(visit(run));
  }
  return absl::OkStatus();
}

bool ShardsOverlap(const StateShard& first, const StateShard& second) {
  return !ForEachSharedRun(first, second, [](const SharedRun&) {
            return absl::AlreadyExistsError("an element in common");
          }).ok();
}

}  // namespace tessera
