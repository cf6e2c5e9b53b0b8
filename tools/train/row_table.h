// The table of --predictions: a line for each row of the data.
#ifndef TESSERA_TOOLS_TRAIN_ROW_TABLE_H_
#define TESSERA_TOOLS_TRAIN_ROW_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/data/dataset.h"
#include "core/train/trainer.h"

namespace tessera {

// Lines of columns with a tab between two. The first line names them: the number of the row, which
// counts from 0; the fields of the data that have one value in each row, such as the label; and the
// columns of the rows that are added. One with several values in each row is several columns:
// "top5_1", "top5_2", ... Numbers have as many digits as identify an f32.
//
// Holds the text in memory. Not thread-safe.
class RowTable {
 public:
  // The dataset must outlive it.
  explicit RowTable(const Dataset* dataset) : dataset_(dataset) {}

  // Adds consecutive rows of DataSplit::kEvaluate. All rows have the same columns. Returns the
  // errors of Dataset::Read.
  absl::Status Add(const PredictedRows& rows);

  int64_t rows() const { return rows_; }
  const std::string& text() const { return text_; }

 private:
  // Returns the columns of the data that have one value in each of these rows.
  absl::StatusOr<std::vector<PredictedRows::Column>> ReadFields(int64_t first, int64_t count) const;

  const Dataset* const dataset_;
  int64_t rows_ = 0;
  std::string text_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_ROW_TABLE_H_
