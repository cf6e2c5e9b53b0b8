// A strided tensor as runs of elements that lie contiguously.
#ifndef TESSERA_CORE_RUNTIME_STRIDED_RUNS_H_
#define TESSERA_CORE_RUNTIME_STRIDED_RUNS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/status/status_macros.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

// Calls visit(offset, position, bytes) for each run, in row-major order: `bytes` bytes lie `offset`
// bytes behind the tensor's first one, and `position` bytes behind the first one of its row-major
// copy. Returns the first error of visit.
template <typename Visit>
absl::Status ForEachRun(const TensorView& view, const Visit& visit) {
  const int64_t size = SizeOf(view.dtype);
  if (view.elements() == 0) return absl::OkStatus();
  int dims = static_cast<int>(view.shape.size());  // of runs, which are the others
  int64_t run = 1;
  while (dims > 0 && (view.shape[dims - 1] == 1 || view.strides[dims - 1] == run)) {
    run *= view.shape[--dims];
  }
  const int64_t runs = view.elements() / run;
  for (int64_t i = 0; i < runs; ++i) {
    int64_t offset = 0, rest = i;
    for (int d = dims - 1; d >= 0; --d) {
      offset += rest % view.shape[d] * view.strides[d];
      rest /= view.shape[d];
    }
    RETURN_IF_ERROR(visit(offset * size, i * run * size, run * size));
  }
  return absl::OkStatus();
}

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_STRIDED_RUNS_H_
