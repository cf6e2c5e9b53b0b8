// embedding copies rows. Its gradient adds rows in the order of ids. Each thread adds its own
// columns, so no sum is shared or depends on the number of threads.
#include "core/ops/embedding.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/table_rows.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

// Returns OutOfRange unless all ids are in [0, rows).
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
  const int64_t columns = table.shape[1], row_bytes = columns * SizeOf(table.dtype);
  const TableRows rows = TableRowsOf(call.input_regions, EmbeddingInput::kTable, table.shape[0]);
  RETURN_IF_ERROR(CheckIds(ids, rows.global));
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
  ParallelFor(call.request.threads, ids.elements(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = ids.As<int32_t>()[i] - rows.first;
      if (row < 0 || row >= table.shape[0]) {  // another device holds it
        std::memset(y.As<char>() + i * row_bytes, 0, row_bytes);
        continue;
      }
      std::memcpy(y.As<char>() + i * row_bytes, table.As<char>() + row * row_bytes, row_bytes);
    }
  });
  return absl::OkStatus();
}

// Sets dtable, of f32, to the sums of the rows of dy with the same id.
void AddRowsInF32(const KernelCall& call, const TableRows& rows) {
  const TensorView &dy = call.inputs[EmbeddingGradInput::kDy],
                   &ids = call.inputs[EmbeddingGradInput::kIds], &dtable = call.outputs[0];
  const int64_t columns = dtable.shape[1], count = ids.elements();
  ParallelFor(call.request.threads, dtable.elements(), 16384, [&](int64_t begin, int64_t end) {
    std::memset(dtable.As<float>() + begin, 0, (end - begin) * sizeof(float));
  });
  // Splits columns at cache lines.
  ParallelFor(call.request.threads, columns, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      const float* const from = dy.As<float>() + i * columns;
      const int64_t row = ids.As<int32_t>()[i] - rows.first;
      if (row < 0 || row >= dtable.shape[0]) continue;
      float* const to = dtable.As<float>() + row * columns;
      for (int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  });
}

// The ids grouped by row, in their order within each row, for terms of 16 bits. A row's terms can
// then be added one after another in f32, so that the sum is rounded at most once.
struct SortedIds {
  int32_t* first;     // for each row, its first index in `position`; then the end
  int32_t* position;  // positions in the tensor of ids, grouped by row

  SortedIds(void* workspace, int64_t rows)
      : first(static_cast<int32_t*>(workspace)), position(first + rows + 1) {}
  static int64_t Bytes(int64_t rows, int64_t ids) {
    return (rows + 1 + ids) * static_cast<int64_t>(sizeof(int32_t));
  }

  // Sets both arrays for a table whose rows on this rank are [first_row, first_row + rows). Skips
  // ids whose rows another device holds.
  void Sort(const TensorView& ids, int64_t first_row, int64_t rows) const {
    const int64_t count = ids.elements();
    const auto row_of = [&](int64_t i) { return ids.As<int32_t>()[i] - first_row; };
    std::fill_n(position, count, 0);
    std::fill_n(first, rows + 1, 0);
    for (int64_t i = 0; i < count; ++i) {
      if (row_of(i) >= 0 && row_of(i) < rows) ++first[row_of(i) + 1];
    }
    for (int64_t r = 0; r < rows; ++r) first[r + 1] += first[r];
    for (int64_t i = 0; i < count; ++i) {
      if (row_of(i) >= 0 && row_of(i) < rows) {
        position[first[row_of(i)]++] = static_cast<int32_t>(i);
      }
    }
    for (int64_t r = rows; r > 0; --r) first[r] = first[r - 1];
    first[0] = 0;
  }
};

// Sets dtable to the sums of the rows of dy, of 16 bits, with the same id. Sums are in f32 and
// rounded at most once.
void AddSortedRows(const KernelCall& call, const SortedIds& sorted) {
  const TensorView &dy = call.inputs[EmbeddingGradInput::kDy], &dtable = call.outputs[0];
  const int64_t columns = dtable.shape[1];
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns));
  ParallelFor(call.request.threads, dtable.shape[0], grain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kStrip = 512;
    float sums[kStrip], terms[kStrip];
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < columns; c += kStrip) {
        const int64_t width = std::min(kStrip, columns - c);
        std::fill_n(sums, width, 0.0f);
        for (int32_t i = sorted.first[r]; i < sorted.first[r + 1]; ++i) {
          const int64_t offset = int64_t{sorted.position[i]} * columns + c;
          ToFloats(dy.dtype, ElementAt(dy.dtype, dy.data, offset), width, terms);
          for (int64_t j = 0; j < width; ++j) sums[j] += terms[j];
        }
        void* const to = ElementAt(dtable.dtype, dtable.data, r * columns + c);
        if (dtable.dtype == DType::kF32) {
          std::copy_n(sums, width, static_cast<float*>(to));
        } else {
          FromFloats(dtable.dtype, sums, width, to);
        }
      }
    }
  });
}

int64_t EmbeddingGradWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  if (!IsHalf(request.inputs[EmbeddingGradInput::kDy].dtype)) return 0;
  return SortedIds::Bytes(request.outputs[0].shape[0],
                          NumElements(request.inputs[EmbeddingGradInput::kIds].shape));
}

absl::Status EmbeddingGrad(const KernelCall& call) {
  const TensorView &ids = call.inputs[EmbeddingGradInput::kIds], &dtable = call.outputs[0];
  const TableRows rows = TableRowsOf(call.output_regions, 0, dtable.shape[0]);
  RETURN_IF_ERROR(CheckIds(ids, rows.global));
  if (!IsHalf(call.inputs[EmbeddingGradInput::kDy].dtype)) {
    AddRowsInF32(call, rows);
    return absl::OkStatus();
  }
  const SortedIds sorted(call.workspace, dtable.shape[0]);
  sorted.Sort(ids, rows.first, dtable.shape[0]);
  AddSortedRows(call, sorted);
  return absl::OkStatus();
}

}  // namespace

void AddEmbeddingKernels(KernelList& list) {
  list.Add("embedding", "loops", Embedding, kRowMajor);
  Traits grad = WithWorkspace(EmbeddingGradWorkspace);
  grad.f32_outputs = 1;
  list.Add("embedding_grad", "loops", EmbeddingGrad, grad);
}

}  // namespace tessera::cpu
