// Lowering: a Graph becomes a Program's instructions over values. Each tensor gets its own buffer;
// its views, and the parts that it is assembled from, are ranges of that buffer. Buffers are merged
// and get their offsets after the passes.
#ifndef TESSERA_CORE_PROGRAM_LOWER_LOWER_H_
#define TESSERA_CORE_PROGRAM_LOWER_LOWER_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/flat_storage.h"
#include "core/program/program.h"

namespace tessera {

// How a Graph is computed on a mesh of ranks.
struct MeshDecisions {
  const GraphLayouts& layouts;
  const LayoutDecisions& decisions;  // of the stage
  const FlatStorage& storage;        // of the decisions' groups
  RedistributionFinder& finder;      // on the mesh
};

// Lowers a Graph for the ranks of a mesh: values have their local shapes. Operators that neither an
// output nor an updated state needs are left out. Instructions are in the Graph's order. A value
// that is made in one layout and read in another is redistributed. A partial value is redistributed
// at once, so that its reduction runs beside the following instructions; any other value, before
// its first reader. Readers of one layout share the result. Readers of a parameter share it only
// within one phase, so that it need not be kept until the backward pass. Outputs are completed on
// all ranks.
//
// If a flat group is gathered after its update, the gather comes right behind the update of the
// group's last member. The gathered parameters are copied into their states when the next group is
// gathered, or at the end of the step.
//
// Reductions of gradients run on a stream "gradients", gathers of parameters on "parameters",
// other collectives on "activations".
absl::StatusOr<Program> Lower(const Graph& graph, const MeshDecisions& mesh,
                              KernelChooser& chooser);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_LOWER_H_
