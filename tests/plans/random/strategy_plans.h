// The Plans that our strategies make for a small model.
#ifndef TESSERA_TESTS_PLANS_RANDOM_STRATEGY_PLANS_H_
#define TESSERA_TESTS_PLANS_RANDOM_STRATEGY_PLANS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/random/plan_case.h"

namespace tessera {

// Returns the Plans of ddp and fsdp, each with several options, for this model.
absl::StatusOr<std::vector<PlanCase>> StrategyPlans(const std::string& model,
                                                    const TrainingRun& run);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_STRATEGY_PLANS_H_
