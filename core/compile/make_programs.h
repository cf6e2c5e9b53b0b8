// The Programs of a run, from the Graphs and the decisions of its Plan.
#ifndef TESSERA_CORE_COMPILE_MAKE_PROGRAMS_H_
#define TESSERA_CORE_COMPILE_MAKE_PROGRAMS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/graph/fingerprints.h"
#include "core/graph/graph.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/plan/choices/stage_passes.h"
#include "core/plan/complete.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/flat_storage.h"
#include "core/program/program.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns complete parts for a Plan: one for every Graph, in their order. Operators that they leave
// open stay open, and they have the fingerprints that they had.
absl::StatusOr<std::vector<PlanPart>> CompletedParts(const Fingerprints& graphs, const Plan& plan);

// Makes the Programs of a run, Graph by Graph. Not thread-safe.
class ProgramMaker {
 public:
  // Everything but `run` must outlive the object. The finder must be on the mesh of the run, with
  // ChoicePrices(). `plugin_passes` may be null (compile.h).
  static absl::StatusOr<ProgramMaker> Create(DecidedRun run, const Stage& stage,
                                             RedistributionFinder& finder, KernelChooser& chooser,
                                             PluginPasses* plugin_passes);

  const DecidedRun& run() const { return run_; }

  // Returns the Program of Graph i, with these layouts, and with a complete part of the Plan. Its
  // buffers have no addresses yet. May be called once for each Graph: of those that the Plan
  // rewrote nothing is left afterwards. Unless it is null, `declarations` is set to the Graph as
  // the Plan rewrote it, but only its inputs, states and blocks.
  absl::StatusOr<Program> Make(size_t i, const GraphLayouts& layouts, const PlanPart& part,
                               Graph* declarations = nullptr);

 private:
  ProgramMaker(DecidedRun run, RedistributionFinder& finder, KernelChooser& chooser,
               PluginPasses* plugin_passes)
      : run_(std::move(run)), finder_(&finder), chooser_(&chooser), plugin_passes_(plugin_passes) {}

  DecidedRun run_;
  FlatStorage storage_;
  StagePasses passes_;
  RedistributionFinder* finder_;
  KernelChooser* chooser_;
  PluginPasses* plugin_passes_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COMPILE_MAKE_PROGRAMS_H_
