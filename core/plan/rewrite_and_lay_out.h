// Rewrites a Graph as a Plan for a mesh says, and gives the ops of the rewritten Graph their
// layouts.
#ifndef TESSERA_CORE_PLAN_REWRITE_AND_LAY_OUT_H_
#define TESSERA_CORE_PLAN_REWRITE_AND_LAY_OUT_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/plan/graph_layouts.h"
#include "core/plan/layout_decisions.h"
#include "core/proto/plan.pb.h"

namespace tessera {

struct RewrittenGraph {
  Graph graph;
  // By op of `graph`; no axes if the mesh has none. Inputs are stored as LayoutDecisions says of
  // GraphInput::origin.
  GraphLayouts layouts;
};

// Returns the Graph as RewriteGraph (rewrite.h) rewrites it, laid out on the mesh. The layouts of
// the Graph itself come first (graph_layouts.h); an op of the rewritten Graph is computed as the
// one that it repeats. An op that the rewriting has added takes what arrives (rule 4 there): an
// accumulation adds partial values as they are, and what reads the sum completes it, once. But the
// gradients of a flat group that is reduced after each micro-batch are added up on the elements
// that a rank holds.
//
// The micro-batch is the outermost split of the batch: an input whose batch is split over ranks
// becomes one input for each micro-batch, and a rank's part is one of each micro-batch's rows.
//
// `graph` is the recorded one, with slices (slices.h) if the Plan has any, and `recorded` its
// layouts by LayOutGraph; none if the mesh has no axes. Errors are those of RewriteGraph. Thread
// safety: a pure function.
absl::StatusOr<RewrittenGraph> RewriteAndLayOut(Graph graph, GraphLayouts recorded,
                                                const PlanPart& part, const Mesh& mesh,
                                                const LayoutDecisions& decisions);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_AND_LAY_OUT_H_
