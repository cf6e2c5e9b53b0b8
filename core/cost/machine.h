// Measures the two rates of this machine with which a step's time is compared.
#ifndef TESSERA_CORE_COST_MACHINE_H_
#define TESSERA_CORE_COST_MACHINE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/tensor/dtype.h"

namespace tessera {

struct MachineRates {
  // The rate of a large matmul, in the dtype to which the backend maps MeasureOptions::dtype.
  double flops_per_second = 0;
  // The rate of a + b -> a, which reads both and writes one. (Writing memory that was not read
  // before costs a CPU more, because it first reads the memory that it overwrites.)
  double bytes_per_second = 0;
};

struct MeasureOptions {
  DType dtype = DType::kF32;  // of the matmul
  double matmul_seconds = 0.25;
  double memory_seconds = 0.25;
  // The most memory that is allocated at a time, apart from kernels' workspaces. If that fits into
  // the caches, bytes_per_second is the rate of the caches.
  int64_t memory_bytes = int64_t{512} << 20;
};

// Measures the best of several runs of the backend's own kernels with all its threads. Takes about
// as long as the options say: a slow backend gets a smaller problem. Call it when nothing else runs
// on the backend. Frees its memory.
absl::StatusOr<MachineRates> MeasureMachine(Backend& backend, const MeasureOptions& options = {});
// Measures only flops_per_second. Allocates 50 MB at most.
absl::StatusOr<double> MeasureMatmul(Backend& backend, const MeasureOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_COST_MACHINE_H_
