#include "core/ops/table_rows_check.h"

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::Status CheckTableRows(const InputCheck& check, const Attributes& attributes, int64_t rows) {
  if (!attributes.Has("first_row") && !attributes.Has("global_rows")) return absl::OkStatus();
  RETURN_IF_ERROR(check.IntIn("global_rows", 0, int64_t{1} << 40));
  RETURN_IF_ERROR(check.IntIn("first_row", 0, int64_t{1} << 40));
  const TableRows part = TableRowsOf(attributes, rows);
  // An empty part may start anywhere.
  if (rows == 0 || part.first <= part.global - rows) return absl::OkStatus();
  return check.Misfit("first_row", absl::StrCat("at most ", part.global - rows, ": ", rows,
                                                " rows of a table of ", part.global));
}

Attributes WithTableRows(const Attributes& attributes, int64_t rows, const Region& region) {
  if (rows == region.global[0]) return attributes;
  const TableRows before = TableRowsOf(attributes, region.global[0]);  // a part of a part
  Attributes local = attributes;
  local.Set("first_row", before.first + region.start[0]);
  local.Set("global_rows", before.global);
  return local;
}

}  // namespace tessera
