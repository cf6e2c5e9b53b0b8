// Checks a Plan on its own, and a part of a Plan against its Graph.
#ifndef TESSERA_CORE_PLAN_CHECK_H_
#define TESSERA_CORE_PLAN_CHECK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/graph/fingerprints.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The format of Plans that are written.
inline constexpr int kPlanFormat = 2;

// Returns InvalidArgument, in one line, if this version of Tessera cannot execute the Plan for any
// Graphs: the format is unknown, there is more than one stage, a part has no graph or the graph of
// another part, a batch or a number of micro-batches is negative, an enumerator is unknown, a pass
// does not exist or has an option that does not fit, a pass is of a plugin that is named by a path,
// or there are layouts but no mesh. Format 0 (an open Plan) is accepted.
absl::Status CheckPlanForm(const Plan& plan);
// Also if the Plan is for another batch than an input of these Graphs has.
absl::Status CheckPlan(const Plan& plan, absl::Span<const Graph> graphs);

// Returns InvalidArgument if the part names another graph, was made for a Graph with another
// fingerprint (of the recorded Graph, before any rewriting), names blocks that do not exist, has a
// negative number of micro-batches, or keeps logits though no backward pass reads any. Fields that
// the part leaves open (no fingerprint, 0 micro_batches) are accepted.
absl::Status CheckPlanPart(const Graph& graph, const PlanPart& part);
// The same for a Graph by its position.
absl::Status CheckPlanPart(const Fingerprints& graphs, size_t number, const PlanPart& part);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHECK_H_
