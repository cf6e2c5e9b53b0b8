// zero_elsewhere writes each line of the output once. It depends on the size of an element only,
// because a zero of any dtype consists of zero bytes.
#include "core/ops/zero_elsewhere.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

// Writes lines [begin, end) of the output, which are its elements along the last dimension.
template <typename T>
void WriteLines(const TensorView& x, const TensorView& y, const Shape& start, int64_t begin,
                int64_t end) {
  const int dims = static_cast<int>(y.shape.size());
  const int64_t columns = dims == 0 ? 1 : y.shape[dims - 1];
  const int64_t first = dims == 0 ? 0 : start[dims - 1];
  const int64_t count = dims == 0 ? 1 : x.shape[dims - 1];
  const int64_t step = dims == 0 ? 1 : x.strides[dims - 1];
  for (int64_t line = begin; line < end; ++line) {
    T* const out = y.As<T>() + line * columns;
    int64_t offset = 0;  // of the line in x
    bool inside = x.elements() > 0;
    int64_t rest = line;
    for (int d = dims - 2; d >= 0; --d) {
      const int64_t i = rest % y.shape[d] - start[d];
      rest /= y.shape[d];
      inside = inside && i >= 0 && i < x.shape[d];
      offset += i * x.strides[d];
    }
    if (!inside) {
      std::memset(out, 0, columns * sizeof(T));
      continue;
    }
    const T* const from = x.As<T>() + offset;
    std::memset(out, 0, first * sizeof(T));
    if (step == 1) {
      std::copy_n(from, count, out + first);
    } else {
      for (int64_t c = 0; c < count; ++c) out[first + c] = from[c * step];
    }
    std::memset(out + first + count, 0, (columns - first - count) * sizeof(T));
  }
}

template <typename T>
void Write(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Shape start = StartInOutput(call.input_regions, call.output_regions, x.shape.size());
  const int64_t columns = y.shape.empty() ? 1 : y.shape.back();
  ParallelFor(call.request.threads, y.elements() / columns, std::max<int64_t>(1, 16384 / columns),
              [&](int64_t begin, int64_t end) { WriteLines<T>(x, y, start, begin, end); });
}

absl::Status ZeroElsewhere(const KernelCall& call) {
  if (call.outputs[0].elements() == 0) return absl::OkStatus();
  switch (SizeOf(call.outputs[0].dtype)) {
    case 1:
      Write<uint8_t>(call);
      break;
    case 2:
      Write<uint16_t>(call);
      break;
    case 4:
      Write<uint32_t>(call);
      break;
    default:
      Write<uint64_t>(call);
      break;
  }
  return absl::OkStatus();
}

}  // namespace

void AddZeroElsewhereKernels(KernelList& list) {
  list.Add("zero_elsewhere", "loops", ZeroElsewhere, {.strided_inputs = 1});
}

}  // namespace tessera::cpu
