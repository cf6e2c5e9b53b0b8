// Measures which of several kernels for a request is fastest on this machine, in the Programs that
// use it.
#ifndef TESSERA_CORE_COST_KERNEL_TIMES_MEASURE_KERNELS_H_
#define TESSERA_CORE_COST_KERNEL_TIMES_MEASURE_KERNELS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/cost/kernel_times/kernel_times.h"
#include "core/kernels/interface/backend.h"
#include "core/program/kernels/kernel_uses.h"
#include "core/program/program.h"

namespace tessera {

// A request that several kernels can run, in one of the Programs that use it.
struct OpenChoice {
  const Program* program = nullptr;
  KernelId kernel;
  std::vector<InstructionId> instructions;  // that use it
  std::vector<const Kernel*> candidates;    // the default kernel first
};

// Returns the requests of the Programs, each once, that several kernels can run and whose times are
// not among `known`. The Programs must outlive the result.
std::vector<OpenChoice> OpenChoicesOf(absl::Span<const Program> programs,
                                      const KernelCatalogue& catalogue, const KernelTimes& known);

struct MeasuringProgress {
  int done = 0, total = 0;  // requests
  double seconds_left = 0;  // estimated
};

struct MeasuringOptions {
  // May be null. Called after each request.
  std::function<void(const MeasuringProgress&)> progress;
};

struct MeasuredKernels {
  KernelTimes times;
  double seconds = 0;         // that measuring has taken
  double load_of_others = 0;  // the share of the cores that other processes have used meanwhile
};

// Measures the candidates of each choice. Kernels run on the operands of the Program's own
// instructions, as rank 0 has them, at their planned offsets in memory of the size of `arenas`, of
// which only these operands are touched; several instructions take turns, as they do in a step.
// Candidates run in rotation, so that a machine that becomes slower slows down all. A time is the
// median of a kernel's runs.
//
// A candidate gets no time, and so is not chosen, if it is not accurate enough (kernel_errors.h) or
// if its results in the Program differ from the default kernel's by much more than both are off.
//
// Call it when nothing else runs on the backend. Frees its memory.
absl::StatusOr<MeasuredKernels> MeasureKernels(absl::Span<const OpenChoice> choices,
                                               const SpaceBytes& arenas, Backend& backend,
                                               const MeasuringOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KERNEL_TIMES_MEASURE_KERNELS_H_
