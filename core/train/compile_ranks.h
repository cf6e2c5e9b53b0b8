// Compiles the Graphs of a run for its ranks, which all execute the same Programs.
#ifndef TESSERA_CORE_TRAIN_COMPILE_RANKS_H_
#define TESSERA_CORE_TRAIN_COMPILE_RANKS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/mesh.h"
#include "core/program/compile.h"
#include "core/proto/plan.pb.h"
#include "core/train/ranks.h"

namespace tessera {

// Returns the mesh of a Plan for a job of `ranks` ranks. InvalidArgument if they do not fit.
absl::StatusOr<Mesh> MeshOfPlan(const Plan& plan, int ranks);

// CompileRun among the ranks of a run. Collective. Rank 0 completes its Plan and chooses the
// kernels; the others compile what it has completed, and ignore `plan`. Errors are agreed ones:
// ranks that have recorded other Graphs, or compile other Programs, are named. `plugin_passes` is
// as for CompileRun.
absl::StatusOr<CompiledRun> CompileTogether(const std::vector<Graph>& graphs, const Plan& plan,
                                            const KernelCatalogue& catalogue, Ranks& ranks,
                                            PluginPasses* plugin_passes = nullptr);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_COMPILE_RANKS_H_
