// Judges Plans in processes of their own, so that a crash or a hang is an outcome too.
#ifndef TESSERA_TESTS_PLANS_RANDOM_JUDGE_H_
#define TESSERA_TESTS_PLANS_RANDOM_JUDGE_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "tests/plans/random/outcome.h"
#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/trained_models.h"

namespace tessera {

// Trains under the Plans, one after the other, and returns their outcomes. Starts processes, each
// of which goes on until one of its Plans ends it or takes more than `seconds`. The calling thread
// must be the only one of the process that does not wait for a call of Judge.
std::vector<Outcome> Judge(const std::vector<TrainedModel>& models,
                           absl::Span<const PlanCase> plans, double seconds);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_JUDGE_H_
