// The cost of a training step: memory, collectives and times, estimated from its Program or taken
// from the times of a step that ran.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_STEP_COST_H_
#define TESSERA_CORE_COST_STEP_COST_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
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

// Returns the index of the entry of an operation along axes, in any order, which is appended if
// there is none.
size_t FindCollective(CollectiveOperation operation, absl::Span<const std::string> mesh_axes,
                      StepCost* cost);

// "all-gather along data"
std::string NameOf(const StepCost::Collective& collective);

// Returns the sums of what each rank has measured in some steps: calls and bytes of the rank that
// has most of them, and the mean of the ranks' times.
StepCost MergeRanks(absl::Span<const StepCost> sums_by_rank);
// Adds the calls, bytes and times of a step to those of others.
void AddStep(const StepCost& step, StepCost* sums);
// Returns the mean of so many steps.
StepCost PerStep(const StepCost& sums, int64_t steps);

// Internal, in one line, unless the calls and bytes that were counted in so many steps are those of
// the estimate. It names the first collective that differs, with both.
absl::Status CompareCollectives(const StepCost& estimated, const StepCost& sums, int64_t steps);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_STEP_COST_H_
