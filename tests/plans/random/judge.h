// Judges Plans in processes of their own, so that a crash or a hang is an outcome too.
#ifndef TESSERA_TESTS_PLANS_RANDOM_JUDGE_H_
#define TESSERA_TESTS_PLANS_RANDOM_JUDGE_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "tests/plans/random/outcome.h"
#include "tests/plans/random/plan_case.h"

namespace tessera {

// Checks the Plans one after the other and returns their outcomes. Starts processes, each of which
// goes on until one of its Plans ends it or takes more than `seconds`. Several threads may call it,
// and `check` must not wait for any of them.
std::vector<Outcome> Judge(absl::Span<const PlanCase> plans,
                           const std::function<Outcome(const PlanCase&)>& check, double seconds);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_JUDGE_H_
