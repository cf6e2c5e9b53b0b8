// Costs of several steps and ranks, combined.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_STEP_COST_SUMS_H_
#define TESSERA_CORE_COST_STEP_COST_SUMS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

// Merges the sums that each rank has measured over the same steps: takes the largest calls and
// bytes of any rank, and the mean of the ranks' times.
StepCost MergeRanks(absl::Span<const StepCost> sums_by_rank);
// Adds the calls, bytes and times of a step to `sums`.
void AddStep(const StepCost& step, StepCost* sums);
// Returns the mean of `steps` steps, with counts rounded down; nothing for 0 steps.
StepCost PerStep(const StepCost& sums, int64_t steps);

// Returns Internal, in one line, unless the calls and bytes counted in `steps` steps equal the
// estimate. The message has the first collective that differs, with both numbers.
absl::Status CompareCollectives(const StepCost& estimated, const StepCost& sums, int64_t steps);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_STEP_COST_SUMS_H_
