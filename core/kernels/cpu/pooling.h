// The loop over rows by which threads share the result of a pooling or of its gradient.
#ifndef TESSERA_CORE_KERNELS_CPU_POOLING_H_
#define TESSERA_CORE_KERNELS_CPU_POOLING_H_

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/parallel.h"
#include "core/kernels/interface/kernel.h"
#include "core/ops/sliding_window.h"
#include "core/tensor/shape.h"

namespace tessera::cpu {

// Calls body(picture, row, offset) for each row of the results, which are [batch, height, width,
// channels]; `offset` is that of the row's first element. `pool` is the windows of the pooling.
template <typename Body>
void ForEachResultRow(const KernelCall& call, const Shape& results, const PictureWindows& pool,
                      const Body& body) {
  constexpr int64_t kGrainElements = 16384;  // that are read or written
  const int64_t height = results[1], row_elements = results[2] * results[3];
  if (row_elements == 0) return;
  const int64_t grain = kGrainElements / (row_elements * std::min<int64_t>(pool.taps(), 64)) + 1;
  ParallelFor(call.request.threads, results[0] * height, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r / height, r % height, r * row_elements);
  });
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_POOLING_H_
