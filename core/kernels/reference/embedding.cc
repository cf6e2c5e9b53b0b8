#include "core/ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"

namespace tessera::reference {
namespace {

absl::Status CheckIds(const TensorView& ids, int64_t rows) {
  absl::Status status;
  ForEachIndex<1>(ids.shape, {ids.strides}, [&](int64_t i) {
    const int32_t id = ids.As<int32_t>()[i];
    if (id >= 0 && id < rows) return;
    status.Update(absl::OutOfRangeError(
        absl::StrCat("id ", id, " is not in the table: ids are in [0, ", rows, ")")));
  });
  return status;
}

absl::Status Embedding(const KernelCall& call) {
  const TensorView &table = call.inputs[EmbeddingInput::kTable],
                   &ids = call.inputs[EmbeddingInput::kIds], &y = call.outputs[0];
  const TableRows rows = TableRowsOf(call.input_regions, EmbeddingInput::kTable, table.shape[0]);
  RETURN_IF_ERROR(CheckIds(ids, rows.global));
  ForEachIndex<2>(ids.shape, {ids.strides, Leading(y.strides, 1)}, [&](int64_t i, int64_t j) {
    const int64_t id = ids.As<int32_t>()[i] - rows.first;
    const bool here = id >= 0 && id < table.shape[0];
    const Line row = LastLine(table, here ? id * table.strides[0] : 0);
    const Line out = LastLine(y, j);
    for (int64_t c = 0; c < y.shape.back(); ++c) out[c] = here ? row[c] : 0;
  });
  return absl::OkStatus();
}

absl::Status EmbeddingGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[EmbeddingGradInput::kDy],
                   &ids = call.inputs[EmbeddingGradInput::kIds], &dtable = call.outputs[0];
  const TableRows rows = TableRowsOf(call.output_regions, 0, dtable.shape[0]);
  RETURN_IF_ERROR(CheckIds(ids, rows.global));
  SetZero(dtable);
  ForEachIndex<2>(ids.shape, {ids.strides, Leading(dy.strides, 1)}, [&](int64_t i, int64_t j) {
    const int64_t id = ids.As<int32_t>()[i] - rows.first;
    if (id < 0 || id >= dtable.shape[0]) return;
    const Line row = LastLine(dtable, id * dtable.strides[0]);
    const Line in = LastLine(dy, j);
    for (int64_t c = 0; c < dy.shape.back(); ++c) row[c] += in[c];
  });
  return absl::OkStatus();
}

}  // namespace

void AddEmbeddingKernels(KernelList& list) {
  AddLoops(list, "embedding", Embedding);
  AddLoops(list, "embedding_grad", EmbeddingGrad);
}

}  // namespace tessera::reference
