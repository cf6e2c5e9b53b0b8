// Rewrites a Graph as a Plan for a mesh says, and chooses the layouts of the ops of the rewritten
// Graph.
#ifndef TESSERA_CORE_PLAN_REWRITE_AND_LAY_OUT_H_
#define TESSERA_CORE_PLAN_REWRITE_AND_LAY_OUT_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/proto/plan.pb.h"

namespace tessera {

struct RewrittenGraph {
  Graph graph;
  // By op of `graph`. The stored layout of an input is that of its GraphInput::origin in
  // LayoutDecisions.
  GraphLayouts layouts;
};

// Returns whether a part changes its Graph, which has these layouts: whether it asks for a
// rewriting (rewrite.h), or an op is computed in parts.
bool Rewrites(const PlanPart& part, const GraphLayouts& recorded, const Mesh& mesh);

// Returns the Graph as rewritten by RewriteGraph (rewrite.h), laid out on the mesh. The layouts of
// the Graph itself are chosen first (graph_layouts.h). Ops that are computed in parts along an axis
// of more than one rank are replaced by their parts (in_parts.h) before all other rewriting. An op
// of the rewritten Graph is computed like the op that it repeats; a part reads the inputs of its op
// in the layouts of the op. An op that the rewriting added takes the layouts of its inputs (rule
// 4 there): an accumulation adds partial values without completing them, and the reader of the sum
// completes it once. Exception: the gradients of a flat group that is reduced after each
// micro-batch are added up on the elements that a rank holds.
//
// The micro-batch is the outermost split of the batch. So an input whose batch is split over ranks
// becomes one input for each micro-batch, and a rank holds a part of the rows of each.
//
// `graph` is the recorded Graph, with slices (slices.h) if the Plan has any. `recorded` are its
// layouts from LayOutGraph. Errors are those of RewriteGraph. Thread safety: a pure function.
absl::StatusOr<RewrittenGraph> RewriteAndLayOut(const Graph& graph, const GraphLayouts& recorded,
                                                const PlanPart& part, const Mesh& mesh,
                                                const LayoutDecisions& decisions);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_AND_LAY_OUT_H_
