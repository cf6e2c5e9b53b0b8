// Splits a strided tensor into contiguous runs of elements.
#ifndef TESSERA_CORE_RUNTIME_STRIDED_RUNS_H_
#define TESSERA_CORE_RUNTIME_STRIDED_RUNS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/status/status_macros.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

// Calls visit(offset, position, bytes) for each run of `bytes` bytes, in row-major order. `offset`
// is the run's byte offset in the tensor, and `position` its byte offset in a row-major copy. Stops
// at the first error of visit and returns it.
template <typename Visit>
absl::Status ForEachRun(const TensorView& view, const Visit& visit) {
  const int64_t size = SizeOf(view.dtype);
  if (view.elements() == 0) return absl::OkStatus();
  int dims = static_cast<int>(view.shape.size());  // the dimensions outside of a run
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
