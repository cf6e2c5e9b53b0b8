// Completes a Plan for a mesh of ranks: a Plan may be open, a completed one lists every path.
#ifndef TESSERA_CORE_PLAN_COMPLETE_H_
#define TESSERA_CORE_PLAN_COMPLETE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns the Plan with the sizes of all mesh axes, the sliced parameters, all dtypes, the layout
// of each state and input, the members of each flat group, and the signature of each op of each
// Graph with slices in the Plan's precision; graph_layouts.h has the rules. It is a function of its
// arguments, and completing what it returns again changes nothing. Micro-batches, recomputation,
// passes and kernels stay as they are. In a Plan without a mesh only slices and precision are
// completed.
//
// `graphs` are those of the run as they were recorded, before any rewriting.
//
// InvalidArgument, in one line, says what of the Plan does not fit the Graphs or the `ranks` of the
// job, and what would.
absl::StatusOr<Plan> CompletePlan(const Plan& plan, absl::Span<const Graph> graphs, int ranks);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_COMPLETE_H_
