// Holds a part of a Plan against the Graph that it is for.
#ifndef TESSERA_CORE_PLAN_CHECK_H_
#define TESSERA_CORE_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// InvalidArgument if the part names another graph, was made for a Graph with another fingerprint
// (the recorded one's, before any rewriting), names blocks that are not there, or asks for fewer
// turns than one. What the part leaves open (no fingerprint, 0 micro_batches) always fits.
absl::Status CheckPlanPart(const Graph& graph, const PlanPart& part);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHECK_H_
