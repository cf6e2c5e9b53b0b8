// Kernels drawn at random. Which kernels are fastest differs between machines; training must be the
// same with all of them.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_DRAWN_KERNELS_H_
#define TESSERA_STRATEGIES_CONFORMANCE_DRAWN_KERNELS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/proto/plan.pb.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {

// Returns a choice for each request that several kernels can run: one of them, drawn at random.
KernelChoices DrawKernels(absl::Span<const Program> programs, const KernelCatalogue& catalogue,
                          uint64_t seed);

// Returns the Plan with kernels drawn for the run that it plans, on the run's backend. Errors are
// those of CompileRun.
absl::StatusOr<Plan> WithDrawnKernels(const TrainingRun& run, Plan plan, int ranks, uint64_t seed);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_DRAWN_KERNELS_H_
