// The rows of a table (or of a weight with one row for each word) that a device holds, if it holds
// only a part. Used by the kernels of embedding and linear_log_sum_exp.
#ifndef TESSERA_CORE_OPS_TABLE_ROWS_H_
#define TESSERA_CORE_OPS_TABLE_ROWS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/layout/layout.h"

namespace tessera {

struct TableRows {
  int64_t first = 0;   // the global index of the part's first row
  int64_t global = 0;  // the number of rows of the global table
};

// Returns the rows of the table that is operand `operand` and has `rows` local rows. `regions` are
// those of a call's inputs or outputs; without regions it is the global table.
inline TableRows TableRowsOf(absl::Span<const Region> regions, int operand, int64_t rows) {
  if (regions.empty()) return {0, rows};
  return {regions[operand].start[0], regions[operand].global[0]};
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_TABLE_ROWS_H_
