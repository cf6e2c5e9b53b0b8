// Compiles the Graphs of a run for its ranks, which all execute the same Programs.
#ifndef TESSERA_CORE_TRAIN_RANKS_COMPILE_RANKS_H_
#define TESSERA_CORE_TRAIN_RANKS_COMPILE_RANKS_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/proto/plan.pb.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// Runs CompileRun on all ranks of a run. Collective. Rank 0 completes `plan`; the other ranks
// ignore their `plan` and compile the one that rank 0 completed. Errors are agreed ones (ranks.h):
// they name the ranks whose Graphs, completed Plan or Programs differ from those of rank 0.
// `plugin_passes` is as for CompileRun.
absl::StatusOr<CompiledRun> CompileTogether(const std::vector<Graph>& graphs, const Plan& plan,
                                            const KernelCatalogue& catalogue, Ranks& ranks,
                                            PluginPasses* plugin_passes = nullptr);
// The same, where rank 0 compiles by `compile_first`, which may choose kernels.
absl::StatusOr<CompiledRun> CompileTogether(
    const std::vector<Graph>& graphs, const KernelCatalogue& catalogue, Ranks& ranks,
    PluginPasses* plugin_passes, const std::function<absl::StatusOr<CompiledRun>()>& compile_first);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RANKS_COMPILE_RANKS_H_
