// copy, from any strides to any strides. It depends on the size of an element, not on its dtype.
// Runs that are contiguous on both sides are copied by memcpy. A transposed matrix is copied in
// tiles that fit into the L1 cache.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

struct Dimension {
  int64_t size, from, to;  // steps in elements
};
using Dimensions = absl::InlinedVector<Dimension, 6>;

// Returns the dimensions in the order of falling strides of y. Adjacent dimensions that x and y
// step through as one are merged.
Dimensions Merged(const TensorView& x, const TensorView& y) {
  Dimensions sorted;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (x.shape[d] != 1) sorted.push_back({x.shape[d], x.strides[d], y.strides[d]});
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Dimension& a, const Dimension& b) { return a.to > b.to; });
  Dimensions merged;
  for (const Dimension& d : sorted) {
    if (!merged.empty() && merged.back().from == d.size * d.from &&
        merged.back().to == d.size * d.to) {
      merged.back() = {merged.back().size * d.size, d.from, d.to};
    } else {
      merged.push_back(d);
    }
  }
  return merged;
}

// The two innermost dimensions of the loop, and their tiles.
struct Matrix {
  Dimension rows{1, 0, 0}, columns{1, 1, 1};
  int64_t tile_rows, tile_columns;

  bool contiguous() const { return columns.from == 1 && columns.to == 1; }
  int64_t row_tiles() const { return (rows.size + tile_rows - 1) / tile_rows; }
  int64_t column_tiles() const { return (columns.size + tile_columns - 1) / tile_columns; }
};

// Removes two dimensions from `outer` and returns them as a matrix: the one with the smallest
// stride in y as columns, and as rows the next one in y if the columns are contiguous in x and y,
// else the one with the smallest stride in x.
Matrix TakeMatrix(Dimensions& outer) {
  constexpr int64_t kTileElements = 16384;
  Matrix matrix;
  if (!outer.empty()) {
    matrix.columns = outer.back();
    outer.pop_back();
  }
  if (!outer.empty()) {
    auto rows = outer.end() - 1;
    if (!matrix.contiguous()) {
      rows =
          std::min_element(outer.begin(), outer.end(),
                           [](const Dimension& a, const Dimension& b) { return a.from < b.from; });
    }
    matrix.rows = *rows;
    outer.erase(rows);
  }
  if (matrix.contiguous()) {
    matrix.tile_columns = std::min(matrix.columns.size, kTileElements);
    matrix.tile_rows = std::max<int64_t>(1, kTileElements / matrix.tile_columns);
  } else {
    matrix.tile_columns = 64;
    matrix.tile_rows = 64;
  }
  return matrix;
}

// Copies a tile of so many rows and columns, in small squares unless it is contiguous.
template <typename T>
void CopyTile(const Matrix& matrix, int64_t rows, int64_t columns, const T* from, T* to) {
  if (matrix.contiguous()) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * matrix.rows.to, from + r * matrix.rows.from, columns * sizeof(T));
    }
    return;
  }
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        const T* const from_row = from + r * matrix.rows.from;
        T* const to_row = to + r * matrix.rows.to;
        for (int64_t c = c0; c < c1; ++c) {
          to_row[c * matrix.columns.to] = from_row[c * matrix.columns.from];
        }
      }
    }
  }
}

// Copies all elements of x to y, tile by tile. There must be elements.
template <typename T>
void CopyElements(int threads, const TensorView& x, const TensorView& y) {
  Dimensions outer = Merged(x, y);
  const Matrix matrix = TakeMatrix(outer);
  const int64_t row_tiles = matrix.row_tiles(), column_tiles = matrix.column_tiles();
  int64_t matrices = 1;
  for (const Dimension& d : outer) matrices *= d.size;
  // A thread takes several small tiles at a time.
  const int64_t tile_elements = std::min(matrix.tile_rows, matrix.rows.size) *
                                std::min(matrix.tile_columns, matrix.columns.size);
  const int64_t grain = std::max<int64_t>(1, 16384 / tile_elements);
  const auto copy_tile = [&](int64_t tile) {
    const int64_t c = tile % column_tiles * matrix.tile_columns;
    const int64_t r = tile / column_tiles % row_tiles * matrix.tile_rows;
    int64_t from = r * matrix.rows.from + c * matrix.columns.from;
    int64_t to = r * matrix.rows.to + c * matrix.columns.to;
    int64_t rest = tile / column_tiles / row_tiles;
    for (int d = static_cast<int>(outer.size()) - 1; d >= 0; --d) {
      from += rest % outer[d].size * outer[d].from;
      to += rest % outer[d].size * outer[d].to;
      rest /= outer[d].size;
    }
    CopyTile(matrix, std::min(matrix.tile_rows, matrix.rows.size - r),
             std::min(matrix.tile_columns, matrix.columns.size - c), x.As<T>() + from,
             y.As<T>() + to);
  };
  ParallelFor(threads, matrices * row_tiles * column_tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) copy_tile(tile);
  });
}

absl::Status Copy(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (x.elements() == 0) return absl::OkStatus();
  switch (SizeOf(x.dtype)) {
    case 1:
      CopyElements<uint8_t>(call.request.threads, x, y);
      break;
    case 2:
      CopyElements<uint16_t>(call.request.threads, x, y);
      break;
    case 4:
      CopyElements<uint32_t>(call.request.threads, x, y);
      break;
    default:
      CopyElements<uint64_t>(call.request.threads, x, y);
      break;
  }
  return absl::OkStatus();
}

}  // namespace

void AddCopyKernels(KernelList& list) {
  list.Add("copy", "loops", Copy, {.strided_inputs = 1, .strided_outputs = 1});
}

}  // namespace tessera::cpu
