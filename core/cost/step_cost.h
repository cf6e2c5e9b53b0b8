// The cost of a training step: memory, collectives and times. It is estimated from the step's
// Program, or computed from the times of a step that ran.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_STEP_COST_H_
#define TESSERA_CORE_COST_STEP_COST_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/cost/instruction_prices.h"
#include "core/cost/prices/measured_prices.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/program/program.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

// Returns the cost of a step of a Program whose memory is planned. `job` gives the host of each
// rank of the Program's mesh, and the backend of its communicators. Memory, calls and bytes are
// exact; times are simulated (SimulateStep) with the prices of `cluster`, which CheckCluster must
// accept, and with those of `measured` where it has some, if it is not null.
StepCost EstimateStep(const Program& program, const Cluster& cluster, const GroupSite& job,
                      const MeasuredPrices* measured = nullptr);
// Returns the cost for a job whose consecutive ranks share the hosts of the cluster.
StepCost EstimateStep(const Program& program, const Cluster& cluster);

// Returns the prices of the instructions of that step.
PricedInstructions PriceStep(const Program& program, const Cluster& cluster, const GroupSite& job,
                             const MeasuredPrices* measured);
// Returns when each instruction of that step runs.
Table<InstructionId, TimeSpan> PredictStep(const Program& program, const Cluster& cluster,
                                           const GroupSite& job, const MeasuredPrices* measured);

// Returns the times of a step and the calls of its collectives, without memory and bytes.
StepCost CostOfTimes(const Program& program, const Table<InstructionId, TimeSpan>& times);

// Returns the index of the entry of an operation (CollectiveOperationName) along these axes, in any
// order. Adds an entry if there is none.
int FindOrAddCollective(absl::string_view operation, absl::Span<const std::string> mesh_axes,
                        StepCost* cost);

// "all-gather along data"
std::string NameOf(const StepCost::Collective& collective);
// Returns the collective of this name; null if there is none.
const StepCost::Collective* FindCollective(const StepCost& cost, absl::string_view name);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_STEP_COST_H_
