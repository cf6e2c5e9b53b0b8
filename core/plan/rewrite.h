// What a Plan changes about what is computed: rewritings of the Graph, before it is lowered.
#ifndef TESSERA_CORE_PLAN_REWRITE_H_
#define TESSERA_CORE_PLAN_REWRITE_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Gives the Graph as `part` says: checked against it (check.h), then with blocks recomputed
// (recompute.h), then cut into micro-batches (micro_batches.h). A part that says nothing gives the
// Graph as it is.
absl::StatusOr<Graph> RewriteGraph(Graph graph, const PlanPart& part);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_H_
