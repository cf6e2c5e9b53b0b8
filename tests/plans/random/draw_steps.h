// Draws the steps with which the redistributions of a Plan are done.
#ifndef TESSERA_TESTS_PLANS_RANDOM_DRAW_STEPS_H_
#define TESSERA_TESTS_PLANS_RANDOM_DRAW_STEPS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "strategies/conformance/rank_training.h"

namespace tessera {

// Returns the completed Plan, in which half of the redistributions take a few random steps to
// anywhere before they go to where they should. Errors are those of CompileRun.
absl::StatusOr<Plan> WithDrawnSteps(const TrainingRun& run, const Plan& plan, int ranks,
                                    uint64_t seed);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_DRAW_STEPS_H_
