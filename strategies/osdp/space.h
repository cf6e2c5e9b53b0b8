// The Plans of units in modes, with a model of their steps.
#ifndef TESSERA_STRATEGIES_OSDP_SPACE_H_
#define TESSERA_STRATEGIES_OSDP_SPACE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/api/search/plan_search.h"
#include "strategies/osdp/modes.h"

namespace tessera::strategy::osdp {

// Lowers the Plans in which all units are in the same mode, and derives each unit's alternatives:
// computation and memory from the sections of these steps, communication from the host's prices.
// For these Plans the model's memory is that of the lowered ones. Where there are many
// micro-batches, steps of two of them are lowered. The last unit of the problem is the work behind
// the blocks, which has no parameters, but logits that may be kept. Modes whose Plans cannot be run
// are left out; InvalidArgument if parameters cannot be sharded.
absl::StatusOr<search::Space> MakeSpace(const Run& run, const Settings& settings,
                                        search::PlanSearch& plans);

// Returns whether the Plans that need the least memory fit or nearly do, or cannot be run.
absl::StatusOr<bool> MayFit(const Run& run, const Settings& settings, search::PlanSearch& plans);

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_SPACE_H_
