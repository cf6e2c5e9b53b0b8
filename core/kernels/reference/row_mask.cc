#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/ops/attention_decode.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"

namespace tessera::reference {
namespace {

absl::Status RowMask(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const TableRows rows = TableRowsOf(call.output_regions, 0, y.shape[0]);
  const int64_t position = *call.inputs[0].As<int64_t>();
  RETURN_IF_ERROR(CheckPosition(position, rows.global));
  const bool up_to = call.request.attributes.GetBool("up_to");
  const Shape columns(y.shape.begin() + 1, y.shape.end());
  const Strides strides(y.strides.begin() + 1, y.strides.end());
  for (int64_t r = 0; r < y.shape[0]; ++r) {
    const int64_t row = rows.first + r;
    const uint8_t mask = row == position || (up_to && row < position) ? 1 : 0;
    ForEachIndex<1>(columns, {strides},
                    [&](int64_t i) { y.As<uint8_t>()[r * y.strides[0] + i] = mask; });
  }
  return absl::OkStatus();
}

}  // namespace

void AddRowMaskKernels(KernelList& list) { AddLoops(list, "row_mask", RowMask); }

}  // namespace tessera::reference
