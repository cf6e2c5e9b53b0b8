// The best rates measured on this machine, of which MFU and "% of limit" are shares.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_MACHINE_RATES_H_
#define TESSERA_TOOLS_TRAIN_SETUP_MACHINE_RATES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/cost/machine.h"
#include "core/posix/available_memory.h"
#include "core/tensor/dtype.h"

namespace tessera {

struct MeasuredRates {
  DType dtype = DType::kF32;  // of the matmul
  MachineRates now;
  MachineRates best;  // of all runs on this machine (core/cost/best_rates.h)
  // Other processes used the cores meanwhile (core/posix/load_of_others.h), so these rates are not
  // kept for other runs.
  bool busy = false;
};

// Returns the name of these rates in core/cost/best_rates.h: the machine's, and a dtype other than
// f32.
std::string RatesName(const Backend& backend, DType dtype);

// Returns options that measure in no more than half of the `available` bytes; 0: nobody knows how
// many there are. A process that takes all that is available is killed.
MeasureOptions WithinMemory(MeasureOptions options, int64_t available = AvailableMemory());

// Measures the rates before a run that multiplies in `dtype` and needs `run_bytes` of memory.
// Allocates as much as the run, at least 128 MiB and at most 512 MiB, but no more than half of the
// available memory.
// Takes half a second on a machine whose rates no earlier run has kept, else a tenth.
absl::StatusOr<MeasuredRates> MeasureRates(Backend& backend, DType dtype, int64_t run_bytes);

// Returns the best rate of a matmul in this dtype that is kept of this machine. If there is none,
// measures it, and keeps it unless other processes were busy meanwhile.
absl::StatusOr<double> MeasureMatmulRate(Backend& backend, DType dtype);

// Measures the matmul again and returns `best` with it.
absl::StatusOr<MachineRates> MeasureMatmulAgain(Backend& backend, DType dtype,
                                                const MachineRates& best);

// "cpu: AMD EPYC, AVX3, 2 threads; at best a matmul reaches 222 GFLOP/s (now 150 GFLOP/s), memory
// 35.0 GiB/s": the rate now is named if it is much lower.
std::string RatesLine(const Backend& backend, const MeasuredRates& rates);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_MACHINE_RATES_H_
