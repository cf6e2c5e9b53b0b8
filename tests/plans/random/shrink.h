// Makes a Plan that fails as short as it can be.
#ifndef TESSERA_TESTS_PLANS_RANDOM_SHRINK_H_
#define TESSERA_TESTS_PLANS_RANDOM_SHRINK_H_

#include <functional>
#include <vector>

#include "tests/plans/random/plan_case.h"

namespace tessera {

// Returns Plans that are simpler in one thing: a choice, an option, a clause, an axis less.
std::vector<PlanCase> Simpler(const PlanCase& from);

// Simplifies the Plan as long as a simpler one `fails` in the same way.
PlanCase Shrunk(PlanCase plan, const std::function<bool(const PlanCase&)>& fails);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_SHRINK_H_
