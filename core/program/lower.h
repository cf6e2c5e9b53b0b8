// Lowering: a Graph becomes a Program's instructions over values. Each tensor gets a buffer of its
// own, of which its views and the parts that it is assembled from are ranges. Which buffers can be
// one, and where they lie, is decided after the passes.
#ifndef TESSERA_CORE_PROGRAM_LOWER_H_
#define TESSERA_CORE_PROGRAM_LOWER_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/redistribution.h"
#include "core/plan/graph_layouts.h"
#include "core/plan/layout_decisions.h"
#include "core/program/flat_storage.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// How a Graph is computed on a mesh of ranks.
struct MeshDecisions {
  const GraphLayouts& layouts;
  const LayoutDecisions& decisions;  // the stage's
  const FlatStorage& storage;        // of the decisions' groups
  RedistributionFinder& finder;      // on the mesh
};

// Leaves out operators that neither an output nor an updated state needs. Instructions have the
// Graph's order.
absl::StatusOr<Program> Lower(const Graph& graph, KernelChooser& chooser);

// The same for the ranks of a mesh: values have the local shapes of a rank. A value that is read in
// another layout than the one in which it is made is redistributed: a partial value at once, so
// that the reduction runs beside the instructions that follow, any other value before its first
// reader. All readers of one layout share the result. Readers of a parameter share it within one
// phase only, so that it is not kept from the forward to the backward pass. Outputs are complete on
// all ranks.
//
// Reductions of gradients run on a stream "gradients", gathers of parameters on "parameters",
// other collectives on "activations".
absl::StatusOr<Program> Lower(const Graph& graph, const MeshDecisions& mesh,
                              KernelChooser& chooser);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_H_
