// What this machine can do, measured: the two rates against which a step's time is held.
#ifndef TESSERA_CORE_COST_MACHINE_H_
#define TESSERA_CORE_COST_MACHINE_H_

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

struct MachineRates {
  double flops_per_second = 0;  // of a large matmul, in the dtype in which the backend keeps f32
  // Of a + b -> a, far beyond the caches: both read and one written. (To write where nothing was
  // read costs a CPU more: it reads what it overwrites.)
  double bytes_per_second = 0;
};

struct MeasureOptions {
  double matmul_seconds = 0.25;
  double memory_seconds = 0.25;
  // At most so much memory is taken, and given back.
  int64_t memory_bytes = int64_t{512} << 20;
};

// Measures with the backend's own kernels, all its threads, the best of several runs. Takes about
// as long as the options say; backends that are too slow for a large problem are given a smaller
// one. Call it when nothing else runs on the backend.
absl::StatusOr<MachineRates> MeasureMachine(Backend& backend, const MeasureOptions& options = {});
// Only the first of the rates, with about 50 MB of memory at most.
absl::StatusOr<double> MeasureMatmul(Backend& backend, double seconds);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_MACHINE_H_
