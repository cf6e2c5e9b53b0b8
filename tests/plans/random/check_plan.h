// Trains a model under a Plan and judges the result.
#ifndef TESSERA_TESTS_PLANS_RANDOM_CHECK_PLAN_H_
#define TESSERA_TESTS_PLANS_RANDOM_CHECK_PLAN_H_

#include <vector>

#include "tests/plans/random/outcome.h"
#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/trained_models.h"

namespace tessera {

// Trains the model of the Plan, which must be one of `models`, on ranks that are threads, with the
// memory check, and compares losses, gradients and states with those of one process. The reference
// backend computes in double whatever the dtypes, so Plans that lower the precision are compared in
// the same way. Of one Plan in four, the completed Plan is trained, with drawn steps in some
// redistributions. On a model that is trained on the cpu backend, the kernels of each request are
// drawn at random otherwise, and results may differ as those of other kernels do. A Plan at fault
// can end the process, or never return.
Outcome CheckPlan(const std::vector<TrainedModel>& models, const PlanCase& tried);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_CHECK_PLAN_H_
