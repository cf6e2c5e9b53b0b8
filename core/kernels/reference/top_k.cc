#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

// Sorts the positions of each row. A NaN is before every number, and its position is -1.
absl::Status TopK(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const int64_t columns = x.shape.back(), k = y.shape.back();
  ForEachIndex<2>(Leading(x.shape, 1), {Leading(x.strides, 1), Leading(y.strides, 1)},
                  [&](int64_t x_offset, int64_t y_offset) {
                    const Line row = LastLine(x, x_offset);
                    std::vector<int32_t> order(columns);
                    std::iota(order.begin(), order.end(), 0);
                    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
                      return std::isnan(row[a]) ? !std::isnan(row[b]) : row[a] > row[b];
                    });
                    int32_t* const largest = y.As<int32_t>() + y_offset;
                    for (int64_t i = 0; i < k; ++i) {
                      largest[i * y.strides.back()] = std::isnan(row[order[i]]) ? -1 : order[i];
                    }
                  });
  return absl::OkStatus();
}

}  // namespace

void AddTopKKernels(KernelList& list) { AddLoops(list, "top_k", TopK); }

}  // namespace tessera::reference
