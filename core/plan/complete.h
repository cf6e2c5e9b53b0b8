// Completes a Plan for a mesh of ranks: a Plan may be open, a completed one lists every path.
#ifndef TESSERA_CORE_PLAN_COMPLETE_H_
#define TESSERA_CORE_PLAN_COMPLETE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/plan/graph_layouts.h"
#include "core/plan/layout_decisions.h"
#include "core/plan/slice_layouts.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The decisions of a Plan about the Graphs of a run; those that it leaves open are completed.
struct CompletedRun {
  SliceDecisions slices;
  std::vector<Graph> graphs;  // as recorded, with slices, in the Plan's precision
  // The ranks' mesh; without axes if the Plan has none. Then there are no decisions and layouts.
  Mesh mesh;
  LayoutDecisions decisions;          // as the Plan states them of `graphs`
  std::vector<GraphLayouts> layouts;  // by Graph; graph_layouts.h has the rules
};

// `graphs` are those of the run as they were recorded, before any rewriting.
//
// InvalidArgument, in one line, says what of the Plan does not fit the Graphs or the `ranks` of the
// job, and what would.
absl::StatusOr<CompletedRun> CompleteRun(const Plan& plan, std::vector<Graph> graphs, int ranks);

// Returns the Plan with the sizes of all mesh axes, the sliced parameters, all dtypes, the layout
// of each state and input, the members of each flat group, and the signature of each op of each
// Graph with slices in the Plan's precision. It is a function of its arguments, and completing what
// it returns again changes nothing. Micro-batches, recomputation, passes and kernels stay as they
// are. In a Plan without a mesh only slices and precision are completed.
//
// `graphs` are the recorded ones, and `run` is what CompleteRun made of them.
absl::StatusOr<Plan> ListDecisions(const Plan& plan, absl::Span<const Graph> graphs,
                                   const CompletedRun& run);

// CompleteRun, and ListDecisions of what it finds.
absl::StatusOr<Plan> CompletePlan(const Plan& plan, absl::Span<const Graph> graphs, int ranks);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_COMPLETE_H_
