// The rows of a table, or of a weight with a row for each word, of which a device holds a part.
// embedding and linear_log_sum_exp share it.
#ifndef TESSERA_CORE_OPS_TABLE_ROWS_H_
#define TESSERA_CORE_OPS_TABLE_ROWS_H_

#include <cstdint>

#include "core/graph/attributes.h"

namespace tessera {

struct TableRows {
  int64_t first = 0;   // the global row of the part's first one
  int64_t global = 0;  // rows of the global table
};

// The part of a table that has `rows` rows of its own. The attributes `first_row` and `global_rows`
// say which part; without them it is all of the table.
inline TableRows TableRowsOf(const Attributes& attributes, int64_t rows) {
  if (!attributes.Has("first_row")) return {0, rows};
  return {attributes.GetInt("first_row"), attributes.GetInt("global_rows")};
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_TABLE_ROWS_H_
