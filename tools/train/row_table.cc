#include "tools/train/row_table.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "core/status/status_macros.h"
#include "core/tensor/convert.h"
#include "core/tensor/dtype.h"

namespace tessera {
namespace {

using Columns = std::vector<PredictedRows::Column>;

void AppendNames(const Columns& columns, std::string* text) {
  for (const PredictedRows::Column& column : columns) {
    for (int64_t i = 1; i <= column.width; ++i) {
      absl::StrAppend(text, "\t", column.name);
      if (column.width > 1) absl::StrAppend(text, "_", i);
    }
  }
}

void AppendValues(const Columns& columns, int64_t row, std::string* text) {
  for (const PredictedRows::Column& column : columns) {
    for (int64_t i = row * column.width; i < (row + 1) * column.width; ++i) {
      const double value = column.values[i];
      if (column.integers) {
        absl::StrAppend(text, "\t", static_cast<int64_t>(value));
      } else if (std::isnan(value)) {
        absl::StrAppend(text, "\tnan");  // without its sign
      } else {
        absl::StrAppendFormat(text, "\t%.9g", value);
      }
    }
  }
}

}  // namespace

absl::StatusOr<Columns> RowTable::ReadFields(int64_t first, int64_t count) const {
  Columns columns;
  const std::vector<BatchField>& fields = dataset_->fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const TensorType& type = fields[i].type;
    if (!type.shape.empty()) continue;
    std::vector<char> bytes(count * SizeOf(type.dtype));
    RETURN_IF_ERROR(
        dataset_->Read(DataSplit::kEvaluate, i, {{first}, {count}}, absl::MakeSpan(bytes)));
    PredictedRows::Column column = {fields[i].name, !IsFloating(type.dtype)};
    column.values.resize(count);
    ToDoubles(type.dtype, bytes.data(), absl::MakeSpan(column.values));
    columns.push_back(std::move(column));
  }
  return columns;
}

absl::Status RowTable::Add(const PredictedRows& rows) {
  ASSIGN_OR_RETURN(const Columns fields, ReadFields(rows.first, rows.count));
  if (text_.empty()) {
    text_ = "row";
    AppendNames(fields, &text_);
    AppendNames(rows.columns, &text_);
    text_ += "\n";
  }
  for (int64_t i = 0; i < rows.count; ++i) {
    absl::StrAppend(&text_, rows.first + i);
    AppendValues(fields, i, &text_);
    AppendValues(rows.columns, i, &text_);
    text_ += "\n";
  }
  rows_ += rows.count;
  return absl::OkStatus();
}

}  // namespace tessera
