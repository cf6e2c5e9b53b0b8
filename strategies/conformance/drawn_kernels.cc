#include "strategies/conformance/drawn_kernels.h"

#include <memory>
#include <random>

#include "core/compile/compile.h"
#include "core/cost/kernel_times/kernel_times.h"
#include "core/cost/kernel_times/measure_kernels.h"
#include "core/status/status_macros.h"

namespace tessera {

KernelChoices DrawKernels(absl::Span<const Program> programs, const KernelCatalogue& catalogue,
                          uint64_t seed) {
  std::mt19937_64 random(seed);
  KernelTimes times;
  for (const OpenChoice& choice : OpenChoicesOf(programs, catalogue, KernelTimes())) {
    const Kernel& drawn = *choice.candidates[random() % choice.candidates.size()];
    times.Set(choice.program->kernels[choice.kernel].key, {{std::string(drawn.name()), 0}});
  }
  return ChoicesBy(times, catalogue);
}

absl::StatusOr<Plan> WithDrawnKernels(const TrainingRun& run, Plan plan, int ranks, uint64_t seed) {
  const std::unique_ptr<Backend> backend = run.backend();
  const auto passes = run.plugin_passes ? run.plugin_passes(*backend) : nullptr;
  ASSIGN_OR_RETURN(const CompiledRun compiled,
                   CompileRun(run.graphs, plan, *backend, ranks, passes.get()));
  *plan.mutable_kernels() = DrawKernels(compiled.programs, *backend, seed);
  return plan;
}

}  // namespace tessera
