// The two rates of this machine that a step's time is compared with, measured.
#ifndef TESSERA_CORE_COST_MACHINE_H_
#define TESSERA_CORE_COST_MACHINE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/tensor/dtype.h"

namespace tessera {

struct MachineRates {
  // A large matmul, in the dtype in which the backend keeps MeasureOptions::dtype.
  double flops_per_second = 0;
  // a + b -> a: both are read and one is written. (A CPU needs more for a write to memory that was
  // not read before: it reads what it overwrites.)
  double bytes_per_second = 0;
};

struct MeasureOptions {
  DType dtype = DType::kF32;  // of the matmul
  double matmul_seconds = 0.25;
  double memory_seconds = 0.25;
  // The most memory that is allocated at a time, apart from kernels' workspaces. The rate of memory
  // is that of caches if they hold as much.
  int64_t memory_bytes = int64_t{512} << 20;
};

// Measures with the backend's own kernels and all its threads, the best of several runs. Takes
// about as long as the options say: a slow backend gets a smaller problem. Call it when nothing
// else runs on the backend. The memory is freed again.
absl::StatusOr<MachineRates> MeasureMachine(Backend& backend, const MeasureOptions& options = {});
// Measures only flops_per_second. Allocates 50 MB at most.
absl::StatusOr<double> MeasureMatmul(Backend& backend, const MeasureOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_COST_MACHINE_H_
