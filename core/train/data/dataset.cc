#include "core/train/data/dataset.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

absl::Status CheckRange(const char* what, IndexRange range, int64_t limit) {
  if (0 <= range.begin && range.begin <= range.end && range.end <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot read ", what, " [", range.begin, ", ",
                                                 range.end, ") of a batch: it has [0, ", limit,
                                                 ")"));
}

}  // namespace

absl::Status Dataset::CheckRead(int64_t first_row, BatchShape shape, IndexRange rows,
                                IndexRange columns, absl::Span<int32_t> tokens,
                                absl::Span<int32_t> targets) {
  if (shape.batch < 1 || shape.sequence < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read a batch of ", shape.batch,
                                                   " sequences of ", shape.sequence,
                                                   " tokens: both must be 1 or more"));
  }
  const int64_t last = std::numeric_limits<int64_t>::max() - shape.batch;
  if (first_row < 0 || first_row > last) {
    return absl::OutOfRangeError(absl::StrCat("there is no batch from row ", first_row,
                                              " on: it may begin at row 0 to ", last));
  }
  absl::Status status = CheckRange("rows", rows, shape.batch);
  if (status.ok()) status = CheckRange("columns", columns, shape.sequence);
  if (!status.ok()) return status;
  // Divides instead of multiplying: the product may not fit.
  const auto fits = [&](absl::Span<int32_t> span) {
    const int64_t size = static_cast<int64_t>(span.size());
    if (rows.size() == 0 || columns.size() == 0) return size == 0;
    return size % columns.size() == 0 && size / columns.size() == rows.size();
  };
  if (!fits(tokens) || !fits(targets)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot read ", rows.size(), " rows of ", columns.size(), " tokens into spans of ",
        tokens.size(), " tokens and ", targets.size(), " targets: sizes must agree"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
