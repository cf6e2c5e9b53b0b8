// Rewrites a Graph as a Plan says, before it is lowered.
#ifndef TESSERA_CORE_PLAN_REWRITE_H_
#define TESSERA_CORE_PLAN_REWRITE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns the Graph as `part` says: with blocks recomputed (recompute.h), then split into
// micro-batches (micro_batches.h). A part that says nothing returns the Graph as it is. Does not
// check that the part is for this Graph (check.h).
//
// `separate` names inputs that become one for each micro-batch.
absl::StatusOr<Graph> RewriteGraph(Graph graph, const PlanPart& part,
                                   absl::Span<const std::string> separate = {});

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_H_
