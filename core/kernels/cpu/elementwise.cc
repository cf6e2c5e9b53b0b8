#include "core/kernels/cpu/elementwise.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/parallel.h"
#include "core/status/check.h"

namespace tessera::cpu {
namespace {

// Operands that are not contiguous along a run are copied to tiles of this many elements.
constexpr int64_t kTile = 512;
// If the inner dimension is shorter than this, a run may cover several of its rows.
constexpr int64_t kMinInner = 128;
constexpr int64_t kGrain = 16384;  // elements that a thread takes at a time, about

struct Operand {
  const char* data;
  int64_t element_bytes;
  Strides strides;      // in elements, of the loop's dimensions
  bool flat = false;    // has the output's strides
  bool widens = false;  // is converted from `dtype` to f32
  DType dtype;
};

// The loop over the output. Adjacent dimensions are merged if every operand steps through them as
// one.
struct Loop {
  Shape sizes;
  Operand operands[kMaxElementwiseInputs];
  int inputs;
  char* output;
  int64_t output_bytes;         // of one element
  bool narrows_output = false;  // from f32 to `output_dtype`
  DType output_dtype;
  const void* context;
  ElementwiseRun run;

  int64_t inner() const { return sizes.back(); }
};

// Sets the loop's sizes and its operands' strides, with adjacent dimensions merged.
void MergeDimensions(const Shape& shape, absl::Span<const TensorView> inputs, Loop& loop) {
  Strides from[kMaxElementwiseInputs];
  for (int k = 0; k < loop.inputs; ++k) from[k] = BroadcastStrides(inputs[k], shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merges = !loop.sizes.empty();
    for (int k = 0; k < loop.inputs && merges; ++k) {
      merges = loop.operands[k].strides.back() == shape[d] * from[k][d];
    }
    if (merges) {
      loop.sizes.back() *= shape[d];
    } else {
      loop.sizes.push_back(shape[d]);
    }
    for (int k = 0; k < loop.inputs; ++k) {
      if (merges) loop.operands[k].strides.pop_back();
      loop.operands[k].strides.push_back(from[k][d]);
    }
  }
  if (loop.sizes.empty()) {  // one element
    loop.sizes.push_back(1);
    for (int k = 0; k < loop.inputs; ++k) loop.operands[k].strides.push_back(1);
  }
  for (int k = 0; k < loop.inputs; ++k) {
    loop.operands[k].flat = IsRowMajor(loop.sizes, loop.operands[k].strides);
  }
}

// Returns the offset, in elements, of the operand's element that is broadcast to element `i` of the
// output, and sets `index` to the index of element `i`.
int64_t OffsetOf(const Loop& loop, const Operand& operand, int64_t i, int64_t* index) {
  int64_t offset = 0;
  for (int d = static_cast<int>(loop.sizes.size()) - 1; d >= 0; --d) {
    index[d] = i % loop.sizes[d];
    i /= loop.sizes[d];
    offset += index[d] * operand.strides[d];
  }
  return offset;
}

constexpr int kMaxRank = 32;

// Copies `count` elements that are `stride` elements apart to consecutive ones.
template <typename T>
void CopyRun(const T* from, int64_t stride, int64_t count, T* to) {
  if (stride == 1) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

// Copies the operand's elements that are broadcast to elements [begin, begin + count) of the
// output, in their order.
template <typename T>
void Gather(const Loop& loop, const Operand& operand, int64_t begin, int64_t count, T* to) {
  int64_t index[kMaxRank];
  const int last = static_cast<int>(loop.sizes.size()) - 1;
  int64_t offset = OffsetOf(loop, operand, begin, index);
  const T* const data = reinterpret_cast<const T*>(operand.data);
  while (true) {
    const int64_t run = std::min(count, loop.sizes[last] - index[last]);
    CopyRun(data + offset, operand.strides[last], run, to);
    to += run;
    count -= run;
    if (count == 0) return;
    offset -= index[last] * operand.strides[last];
    index[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += operand.strides[d];
      if (++index[d] < loop.sizes[d]) break;
      offset -= operand.strides[d] * loop.sizes[d];
      index[d] = 0;
    }
  }
}

// Calls Gather() for the size of the operand's elements.
void GatherBytes(const Loop& loop, const Operand& operand, int64_t begin, int64_t count, void* to) {
  switch (operand.element_bytes) {
    case 1:
      return Gather(loop, operand, begin, count, static_cast<uint8_t*>(to));
    case 2:
      return Gather(loop, operand, begin, count, static_cast<uint16_t*>(to));
    case 4:
      return Gather(loop, operand, begin, count, static_cast<uint32_t*>(to));
    default:
      return Gather(loop, operand, begin, count, static_cast<uint64_t*>(to));
  }
}

// Elements that were converted to f32, or are about to be converted from it.
struct FloatTile {
  alignas(64) float floats[kTile];
};

// A tile of an operand. If all of it was filled from one element, `splat` is the address of that
// element: if the operand is broadcast along the inner dimension, the next tile is the same and is
// not filled again.
struct Tile {
  alignas(64) char bytes[kTile * 8];
  const char* splat = nullptr;
  int64_t splat_count = 0;
};

// Returns the tile's bytes after filling them with the operand's elements for outputs [begin, begin
// + count). `in_one_run`: these outputs do not leave a row of the inner dimension.
const void* FillTile(const Loop& loop, const Operand& operand, int64_t begin, int64_t count,
                     bool in_one_run, Tile& tile) {
  if (!in_one_run || operand.strides.back() != 0) {
    tile.splat = nullptr;
    GatherBytes(loop, operand, begin, count, tile.bytes);
    return tile.bytes;
  }
  int64_t index[kMaxRank];
  const char* const element =
      operand.data + OffsetOf(loop, operand, begin, index) * operand.element_bytes;
  if (tile.splat != element || tile.splat_count < count) {
    GatherBytes(loop, operand, begin, count, tile.bytes);
    tile.splat = element;
    tile.splat_count = count;
  }
  return tile.bytes;
}

// Runs `count` elements, at most a tile, with conversions from and to f32.
void RunConverted(const Loop& loop, int64_t begin, int64_t count, const void** inputs) {
  FloatTile input_tiles[kMaxElementwiseInputs], output_tile;
  for (int k = 0; k < loop.inputs; ++k) {
    if (!loop.operands[k].widens) continue;
    ToFloats(loop.operands[k].dtype, inputs[k], count, input_tiles[k].floats);
    inputs[k] = input_tiles[k].floats;
  }
  char* const output = loop.output + begin * loop.output_bytes;
  if (!loop.narrows_output) return loop.run(loop.context, inputs, output, count);
  loop.run(loop.context, inputs, output_tile.floats, count);
  FromFloats(loop.output_dtype, output_tile.floats, count, output);
}

// Runs the loop over outputs [begin, end), in pieces as long as the operands allow.
void RunRange(const Loop& loop, int64_t begin, int64_t end) {
  bool all_flat = true, needs_tiles = false, converts = loop.narrows_output;
  for (int k = 0; k < loop.inputs; ++k) {
    const Operand& operand = loop.operands[k];
    all_flat &= operand.flat;
    needs_tiles |= !operand.flat && operand.strides.back() != 1;
    converts |= operand.widens;
  }
  const int64_t inner = loop.inner();
  const bool by_runs = inner >= kMinInner || loop.sizes.size() == 1;
  Tile tiles[kMaxElementwiseInputs];
  for (int64_t i = begin; i < end;) {
    int64_t count = end - i;
    if (!all_flat) {
      if (by_runs) count = std::min(count, inner - i % inner);
      if (!by_runs || needs_tiles) count = std::min(count, kTile);
    }
    if (converts) count = std::min(count, kTile);
    const void* inputs[kMaxElementwiseInputs];
    for (int k = 0; k < loop.inputs; ++k) {
      const Operand& operand = loop.operands[k];
      if (operand.flat) {
        inputs[k] = operand.data + i * operand.element_bytes;
      } else if (by_runs && operand.strides.back() == 1) {
        int64_t index[kMaxRank];
        inputs[k] = operand.data + OffsetOf(loop, operand, i, index) * operand.element_bytes;
      } else {
        inputs[k] = FillTile(loop, operand, i, count, by_runs, tiles[k]);
      }
    }
    if (converts) {
      RunConverted(loop, i, count, inputs);
    } else {
      loop.run(loop.context, inputs, loop.output + i * loop.output_bytes, count);
    }
    i += count;
  }
}

void RunLoop(int threads, absl::Span<const TensorView> inputs, const TensorView& output,
             const void* context, ElementwiseRun run, bool in_f32) {
  TESSERA_CHECK(inputs.size() <= kMaxElementwiseInputs && output.shape.size() <= kMaxRank)
      << inputs.size() << " inputs, output " << ShapeToString(output.shape);
  const int64_t elements = output.elements();
  if (elements == 0) return;
  Loop loop;
  loop.inputs = static_cast<int>(inputs.size());
  loop.output = output.As<char>();
  loop.output_bytes = SizeOf(output.dtype);
  loop.output_dtype = output.dtype;
  loop.narrows_output = in_f32 && IsHalf(output.dtype);
  loop.context = context;
  loop.run = run;
  for (int k = 0; k < loop.inputs; ++k) {
    loop.operands[k].data = inputs[k].As<char>();
    loop.operands[k].element_bytes = SizeOf(inputs[k].dtype);
    loop.operands[k].dtype = inputs[k].dtype;
    loop.operands[k].widens = in_f32 && IsHalf(inputs[k].dtype);
  }
  MergeDimensions(output.shape, inputs, loop);
  ParallelFor(threads, elements, kGrain,
              [&](int64_t begin, int64_t end) { RunRange(loop, begin, end); });
}

}  // namespace

void RunElementwise(int threads, absl::Span<const TensorView> inputs, const TensorView& output,
                    const void* context, ElementwiseRun run) {
  RunLoop(threads, inputs, output, context, run, /*in_f32=*/false);
}

void RunElementwiseInF32(int threads, absl::Span<const TensorView> inputs, const TensorView& output,
                         const void* context, ElementwiseRun run) {
  RunLoop(threads, inputs, output, context, run, /*in_f32=*/true);
}

}  // namespace tessera::cpu
