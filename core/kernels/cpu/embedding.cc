// embedding copies rows; its gradient adds rows in the order of ids, each thread in columns of its
// own, so no sum depends on the number of threads and none is shared.
#include "core/ops/embedding.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

absl::Status CheckIds(const TensorView& ids, int64_t rows) {
  const int32_t* const data = ids.As<int32_t>();
  const int64_t count = ids.elements();
  for (int64_t i = 0; i < count; ++i) {
    if (data[i] < 0 || data[i] >= rows) {
      return absl::OutOfRangeError(absl::StrCat(
          "id ", data[i], " at position ", i, " is not in the table: ids are in [0, ", rows, ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status Embedding(const KernelCall& call) {
  const TensorView &table = call.inputs[EmbeddingInput::kTable],
                   &ids = call.inputs[EmbeddingInput::kIds], &y = call.outputs[0];
  const int64_t columns = table.shape[1];
  const TableRows rows = TableRowsOf(call.input_regions, EmbeddingInput::kTable, table.shape[0]);
  RETURN_IF_ERROR(CheckIds(ids, rows.global));
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
  ParallelFor(call.request.threads, ids.elements(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = ids.As<int32_t>()[i] - rows.first;
      if (row < 0 || row >= table.shape[0]) {  // another device has it
        std::fill_n(y.As<float>() + i * columns, columns, 0.0f);
        continue;
      }
      std::copy_n(table.As<float>() + row * columns, columns, y.As<float>() + i * columns);
    }
  });
  return absl::OkStatus();
}

absl::Status EmbeddingGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[EmbeddingGradInput::kDy],
                   &ids = call.inputs[EmbeddingGradInput::kIds], &dtable = call.outputs[0];
  const int64_t columns = dtable.shape[1], count = ids.elements();
  const TableRows rows = TableRowsOf(call.output_regions, 0, dtable.shape[0]);
  RETURN_IF_ERROR(CheckIds(ids, rows.global));
  ParallelFor(call.request.threads, dtable.elements(), 16384, [&](int64_t begin, int64_t end) {
    std::memset(dtable.As<float>() + begin, 0, (end - begin) * sizeof(float));
  });
  // Columns by cache lines.
  ParallelFor(call.request.threads, columns, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      const float* const from = dy.As<float>() + i * columns;
      const int64_t row = ids.As<int32_t>()[i] - rows.first;
      if (row < 0 || row >= dtable.shape[0]) continue;
      float* const to = dtable.As<float>() + row * columns;
      for (int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  });
  return absl::OkStatus();
}

}  // namespace

void AddEmbeddingKernels(KernelList& list) {
  list.Add("embedding", "loops", Embedding, kRowMajor);
  list.Add("embedding_grad", "loops", EmbeddingGrad, kRowMajor);
}

}  // namespace tessera::cpu
