#include "core/kernels/cpu/reduction.h"

#include <algorithm>
#include <vector>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/parallel.h"
#include "core/tensor/convert.h"

namespace tessera::cpu {
namespace {

// A unit of the output is reduced piece by piece. Results do not depend on the number of threads,
// because pieces do not.
constexpr int64_t kRowPiece = 16384;   // elements of a row
constexpr int64_t kColumnPiece = 256;  // rows of a strip
constexpr int64_t kStrip = 1024;       // columns

struct Dimension {
  int64_t size, stride;
};
using Dimensions = absl::InlinedVector<Dimension, 6>;

// The dimensions of a row-major tensor; consecutive dimensions of one kind are merged.
struct Plan {
  Dimensions kept, reduced;  // all but the innermost of each
  Dimension inner_kept{1, 0}, inner_reduced{1, 0};
  bool by_rows = false;  // the innermost dimension is a reduced one
  int64_t strips = 1;    // of the innermost kept dimension
  int64_t units = 1;     // parts of the output
  int64_t piece_length = 1;
  int64_t inner_pieces = 1;
  int64_t pieces = 1;         // of each unit
  bool shares_units = false;  // threads share the pieces of a unit

  int64_t strip_width() const { return std::min(inner_kept.size, kStrip); }
};

int64_t CountOf(const Dimensions& dimensions) {
  int64_t count = 1;
  for (const Dimension& d : dimensions) count *= d.size;
  return count;
}

// Returns how a tensor of this shape is reduced over `axes`.
Plan MakePlan(const Shape& shape, const std::vector<int64_t>& axes, int threads) {
  Plan plan;
  const Strides strides = RowMajorStrides(shape);
  bool last_is_reduced = false;
  bool first = true;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool is_reduced =
        std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    Dimensions& dimensions = is_reduced ? plan.reduced : plan.kept;
    if (!first && is_reduced == last_is_reduced) {
      dimensions.back() = {dimensions.back().size * shape[d], strides[d]};
    } else {
      dimensions.push_back({shape[d], strides[d]});
    }
    last_is_reduced = is_reduced;
    first = false;
  }
  plan.by_rows = last_is_reduced;
  if (!plan.reduced.empty()) {
    plan.inner_reduced = plan.reduced.back();
    plan.reduced.pop_back();
  }
  if (!plan.by_rows && !plan.kept.empty()) {
    plan.inner_kept = plan.kept.back();
    plan.kept.pop_back();
    plan.strips = (plan.inner_kept.size + kStrip - 1) / kStrip;
  }
  plan.units = CountOf(plan.kept) * plan.strips;
  plan.piece_length = plan.by_rows ? kRowPiece : kColumnPiece;
  plan.inner_pieces = (plan.inner_reduced.size + plan.piece_length - 1) / plan.piece_length;
  plan.pieces = CountOf(plan.reduced) * plan.inner_pieces;
  plan.shares_units = threads > 1 && plan.pieces > 1 && plan.units < 4 * int64_t{threads};
  return plan;
}

// Returns the offset of the element with the row-major index i over these dimensions.
int64_t OffsetOf(const Dimensions& dimensions, int64_t i) {
  int64_t offset = 0;
  for (int d = static_cast<int>(dimensions.size()) - 1; d >= 0; --d) {
    offset += i % dimensions[d].size * dimensions[d].stride;
    i /= dimensions[d].size;
  }
  return offset;
}

// The columns of a unit: the offset of the first one in the output, and their number.
struct Columns {
  int64_t first, count;
};

Columns ColumnsOf(const Plan& plan, int64_t unit) {
  if (plan.by_rows) return {unit, 1};
  const int64_t begin = unit % plan.strips * kStrip;
  return {unit / plan.strips * plan.inner_kept.size + begin,
          std::min(kStrip, plan.inner_kept.size - begin)};
}

// Elements of 16 bits are converted and reduced in tiles: this many rows of a strip, or the same
// number of elements of one row.
constexpr int64_t kTileRows = 4;

// Reduces a piece of 16-bit elements to `width` results: `length` elements of a row, or `length`
// rows, `stride` apart.
void ReduceHalves(const Reducer& reducer, DType dtype, const void* x, bool by_rows, int64_t length,
                  int64_t stride, int64_t width, double* result) {
  alignas(64) float tile[kTileRows * kStrip];
  if (by_rows) {
    *result = reducer.identity;
    for (int64_t i = 0; i < length; i += kTileRows * kStrip) {
      const int64_t count = std::min(kTileRows * kStrip, length - i);
      ToFloats(dtype, ElementAt(dtype, x, i), count, tile);
      const double tile_result = reducer.row(tile, count);
      reducer.combine(&tile_result, 1, result);
    }
    return;
  }
  std::fill_n(result, width, reducer.identity);
  for (int64_t r = 0; r < length; r += kTileRows) {
    const int64_t rows = std::min(kTileRows, length - r);
    for (int64_t i = 0; i < rows; ++i) {
      ToFloats(dtype, ElementAt(dtype, x, (r + i) * stride), width, tile + i * kStrip);
    }
    reducer.columns(tile, rows, kStrip, width, result);
  }
}

// Sets `result` to the reduction of one piece of a unit.
void ReducePiece(const Plan& plan, const Reducer& reducer, const TensorView& x, int64_t unit,
                 int64_t piece, double* result) {
  const int64_t begin = piece % plan.inner_pieces * plan.piece_length;
  const int64_t length = std::min(plan.piece_length, plan.inner_reduced.size - begin);
  const int64_t stride = plan.inner_reduced.stride;
  const int64_t offset = OffsetOf(plan.reduced, piece / plan.inner_pieces) + begin * stride +
                         OffsetOf(plan.kept, unit / plan.strips) + unit % plan.strips * kStrip;
  const int64_t width = ColumnsOf(plan, unit).count;
  if (x.dtype != DType::kF32) {
    return ReduceHalves(reducer, x.dtype, ElementAt(x.dtype, x.data, offset), plan.by_rows, length,
                        stride, width, result);
  }
  if (plan.by_rows) {
    *result = reducer.row(x.As<float>() + offset, length);
    return;
  }
  std::fill_n(result, width, reducer.identity);
  reducer.columns(x.As<float>() + offset, length, stride, width, result);
}

// Writes results to consecutive elements of y, converted to its dtype.
void WriteResults(const double* from, int64_t count, const TensorView& y, int64_t first) {
  WithFloatType(y.dtype, [&](auto type) {
    using T = decltype(type);
    T* const to = y.As<T>() + first;
    for (int64_t i = 0; i < count; ++i) to[i] = Convert<T>(from[i]);
  });
}

}  // namespace

void Reduce(const KernelCall& call, const Reducer& reducer) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.elements() == 0) return;
  if (x.elements() == 0) {
    for (int64_t i = 0; i < y.elements(); ++i) WriteResults(&reducer.identity, 1, y, i);
    return;
  }
  const int threads = call.request.threads;
  const Plan plan = MakePlan(x.shape, call.request.attributes.GetInts("axes"), threads);
  const int64_t width = plan.strip_width();
  double* const partial = static_cast<double*>(call.workspace);
  if (plan.shares_units) {
    ParallelFor(threads, plan.units * plan.pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ReducePiece(plan, reducer, x, i / plan.pieces, i % plan.pieces, partial + i * width);
      }
    });
  }
  const int64_t unit_elements = x.elements() / plan.units;
  const int64_t grain = plan.shares_units
                            ? plan.units
                            : std::max<int64_t>(1, 16384 / std::max<int64_t>(1, unit_elements));
  ParallelFor(threads, plan.units, grain, [&](int64_t begin, int64_t end) {
    double total[kStrip], piece_result[kStrip];
    for (int64_t unit = begin; unit < end; ++unit) {
      const Columns columns = ColumnsOf(plan, unit);
      std::fill_n(total, columns.count, reducer.identity);
      for (int64_t piece = 0; piece < plan.pieces; ++piece) {
        const double* result = partial + (unit * plan.pieces + piece) * width;
        if (!plan.shares_units) {
          ReducePiece(plan, reducer, x, unit, piece, piece_result);
          result = piece_result;
        }
        reducer.combine(result, columns.count, total);
      }
      WriteResults(total, columns.count, y, columns.first);
    }
  });
}

int64_t ReductionWorkspace(const KernelRequest& request) {
  const Plan plan =
      MakePlan(request.inputs[0].shape, request.attributes.GetInts("axes"), request.threads);
  const bool empty = NumElements(request.inputs[0].shape) == 0;
  if (!plan.shares_units || empty) return 0;
  // The last piece writes only the columns of the last unit, which may be fewer than a full strip.
  const int64_t doubles =
      (plan.units * plan.pieces - 1) * plan.strip_width() + ColumnsOf(plan, plan.units - 1).count;
  return doubles * static_cast<int64_t>(sizeof(double));
}

}  // namespace tessera::cpu
