// The rows of a table, or of a weight with a row for each word, of which a device holds a part.
// The kernels of embedding and linear_log_sum_exp share it.
#ifndef TESSERA_CORE_OPS_TABLE_ROWS_H_
#define TESSERA_CORE_OPS_TABLE_ROWS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/layout/layout.h"

namespace tessera {

struct TableRows {
  int64_t first = 0;   // the global row of the part's first one
  int64_t global = 0;  // rows of the global table
};

// The rows that operand `operand` is, a table of `rows` rows of its own, by the regions of a call's
// inputs or outputs. Without regions it is the global table.
inline TableRows TableRowsOf(absl::Span<const Region> regions, int operand, int64_t rows) {
  if (regions.empty()) return {0, rows};
  return {regions[operand].start[0], regions[operand].global[0]};
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_TABLE_ROWS_H_
