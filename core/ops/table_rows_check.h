// The attributes `first_row` and `global_rows`: whether they fit, and those of a part.
#ifndef TESSERA_CORE_OPS_TABLE_ROWS_CHECK_H_
#define TESSERA_CORE_OPS_TABLE_ROWS_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/graph/attributes.h"
#include "core/layout/layout.h"
#include "core/ops/input_check.h"
#include "core/ops/table_rows.h"

namespace tessera {

// Both attributes are there or neither, and `rows` rows from the first one on are in the table.
absl::Status CheckTableRows(const InputCheck& check, const Attributes& attributes, int64_t rows);

// `attributes` for the part `region` of what they say now, which has `rows` rows. They stay as they
// are if that is all of it.
Attributes WithTableRows(const Attributes& attributes, int64_t rows, const Region& region);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_TABLE_ROWS_CHECK_H_
