#include "core/train/data/dataset.h"

#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/tensor/dtype.h"

namespace tessera {
namespace {

// Returns whether elements [start, start + extent) are among `size`, without an overflow.
bool Fits(int64_t start, int64_t extent, int64_t size) {
  return start >= 0 && extent >= 0 && extent <= size && start <= size - extent;
}

}  // namespace

absl::Status Dataset::CheckRead(DataSplit split, size_t field, const Box& box,
                                absl::Span<const char> bytes) const {
  if (field >= fields().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no field ", field, " to read: rows have ", FieldsText(fields())));
  }
  const TensorType& row = fields()[field].type;
  const auto invalid = [&](absl::string_view fault) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", fields()[field].name, " [", absl::StrJoin(row.shape, ", "),
                     "] of [", absl::StrJoin(box.extent, ", "), "] elements from [",
                     absl::StrJoin(box.start, ", "), "] on", fault));
  };
  const size_t dimensions = row.shape.size() + 1;
  if (box.start.size() != dimensions || box.extent.size() != dimensions) {
    return invalid(absl::StrCat(": a box of ", dimensions, " dimensions would be right"));
  }
  for (size_t i = 1; i < dimensions; ++i) {
    if (!Fits(box.start[i], box.extent[i], row.shape[i - 1])) return invalid(": it has fewer");
  }
  const int64_t rows =
      split == DataSplit::kEvaluate ? EvaluationRows() : std::numeric_limits<int64_t>::max();
  if (!Fits(box.start[0], box.extent[0], rows)) {
    return absl::OutOfRangeError(absl::StrCat("there are no ", box.extent[0], " rows from row ",
                                              box.start[0], " on: there are ", rows));
  }
  // Divides instead of multiplying: the product may not fit.
  const auto agrees = [&] {
    if (absl::c_linear_search(box.extent, 0)) return bytes.empty();
    auto left = static_cast<int64_t>(bytes.size());
    if (left % SizeOf(row.dtype) != 0) return false;
    left /= SizeOf(row.dtype);
    for (const int64_t extent : box.extent) {
      if (left % extent != 0) return false;
      left /= extent;
    }
    return left == 1;
  };
  if (agrees()) return absl::OkStatus();
  return invalid(absl::StrCat(" into ", bytes.size(), " bytes: sizes must agree"));
}

}  // namespace tessera
