// top_k. Plain loops are enough: it runs in evaluations only, and for few elements of each row.
#include <cmath>
#include <cstdint>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

// Returns whether a later element of a row is before an earlier one in descending order. A NaN is
// before every number.
bool IsBefore(float later, float earlier) {
  return std::isnan(later) ? !std::isnan(earlier) : later > earlier;
}

// Writes the positions of the k largest elements of a row, and -1 for a NaN.
template <typename T>
void FindLargest(const T* row, int64_t columns, int64_t k, int32_t* largest) {
  const auto at = [row](int64_t v) { return static_cast<float>(row[v]); };
  for (int64_t v = 0; v < columns; ++v) {
    // The elements so far are in descending order.
    int64_t place = v < k ? v : k;
    while (place > 0 && IsBefore(at(v), at(largest[place - 1]))) {
      if (place < k) largest[place] = largest[place - 1];
      --place;
    }
    if (place < k) largest[place] = static_cast<int32_t>(v);
  }
  for (int64_t i = 0; i < k; ++i) {
    if (std::isnan(at(largest[i]))) largest[i] = -1;
  }
}

absl::Status TopK(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const int64_t columns = x.shape.back(), k = y.shape.back();
  ParallelFor(call.request.threads, y.elements() / k, 16384 / columns + 1,
              [&](int64_t begin, int64_t end) {
                WithFloatType(x.dtype, [&](auto type) {
                  using T = decltype(type);
                  for (int64_t r = begin; r < end; ++r) {
                    FindLargest(x.As<T>() + r * columns, columns, k, y.As<int32_t>() + r * k);
                  }
                });
              });
  return absl::OkStatus();
}

}  // namespace

void AddTopKKernels(KernelList& list) { list.Add("top_k", "loops", TopK, kRowMajor); }

}  // namespace tessera::cpu
