// Checks a Plan: by itself, and a part of it against the Graph that it is for.
#ifndef TESSERA_CORE_PLAN_CHECK_H_
#define TESSERA_CORE_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The format of Plans that are written.
inline constexpr int kPlanFormat = 1;

// InvalidArgument, in one line, if this version of Tessera cannot follow the Plan, whatever the
// Graphs: it has another format, more than one stage, a part that names no graph or the same graph
// as another part, a negative number of micro-batches, an unknown pass or option, or layouts but no
// mesh. Format 0 stands for an open Plan and is accepted.
absl::Status CheckPlanForm(const Plan& plan);

// InvalidArgument if the part names another graph, was made for a Graph with another fingerprint
// (the recorded one's, before any rewriting), names blocks that are not there, or has a negative
// number of micro-batches. What the part leaves open (no fingerprint, 0 micro_batches) always fits.
absl::Status CheckPlanPart(const Graph& graph, const PlanPart& part);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHECK_H_
