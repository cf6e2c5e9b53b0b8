// Rewrites a Graph as a Plan says, before it is lowered.
#ifndef TESSERA_CORE_PLAN_REWRITE_REWRITE_H_
#define TESSERA_CORE_PLAN_REWRITE_REWRITE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns the Graph as `part` says: first with logits that are kept (keep_logits.h), then with
// activations recomputed (recompute.h), then split into micro-batches (micro_batches.h). If the
// part asks for none of these (Rewrites), the Graph is returned unchanged. Does not check that the
// part belongs to this Graph (check.h does).
//
// `separate` names the inputs that become one input for each micro-batch.
absl::StatusOr<Graph> RewriteGraph(const Graph& graph, const PlanPart& part,
                                   absl::Span<const std::string> separate = {});

// Returns whether a part changes its Graph.
bool Rewrites(const PlanPart& part);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_REWRITE_H_
