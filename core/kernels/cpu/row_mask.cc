#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/kernel_list.h"
#include "core/ops/attention_decode.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

// The mask is small: one thread writes it.
absl::Status RowMask(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const int64_t count = y.shape[0];
  const TableRows rows = TableRowsOf(call.output_regions, 0, count);
  const int64_t position = *call.inputs[0].As<int64_t>();
  RETURN_IF_ERROR(CheckPosition(position, rows.global));
  if (y.elements() == 0) return absl::OkStatus();
  const int64_t columns = y.elements() / count;
  // The rows [begin, end) are marked.
  const int64_t at = position - rows.first;
  const bool up_to = call.request.attributes.GetBool("up_to");
  const int64_t begin = up_to ? 0 : std::clamp<int64_t>(at, 0, count);
  const int64_t end = std::clamp<int64_t>(at + 1, 0, count);
  auto* const mask = y.As<uint8_t>();
  std::memset(mask, 0, count * columns);
  std::memset(mask + begin * columns, 1, (end - begin) * columns);
  return absl::OkStatus();
}

}  // namespace

void AddRowMaskKernels(KernelList& list) { list.Add("row_mask", "loops", RowMask, {}); }

}  // namespace tessera::cpu
