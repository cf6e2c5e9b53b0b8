// The cost of a training step: memory, collectives and times, estimated from its Program or taken
// from the times of a step that ran.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_STEP_COST_H_
#define TESSERA_CORE_COST_STEP_COST_H_

#include <cstddef>

#include "absl/types/span.h"
#include "core/cost/step_time.h"
#include "core/layout/collective_traffic.h"
#include "core/program/program.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

// Returns the cost of a step of a Program whose memory is planned. `job` has the host of each rank
// of the Program's mesh, and the backend of its communicators. Memory, calls and bytes are exact;
// times are simulated (SimulateStep) with the prices of `cluster`, which CheckCluster accepts.
StepCost EstimateStep(const Program& program, const Cluster& cluster, const GroupSite& job);
// The same for consecutive ranks on the hosts of the cluster.
StepCost EstimateStep(const Program& program, const Cluster& cluster);

// Returns the times of a step, and the calls of its collectives: neither memory nor bytes.
StepCost CostOfTimes(const Program& program, absl::Span<const TimeSpan> times);

// Returns the index of the entry of a request's operation and axes, which is appended if there is
// none.
size_t FindCollective(const CollectiveRequest& request, StepCost* cost);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_STEP_COST_H_
