// Draws Plans at random.
#ifndef TESSERA_TESTS_PLANS_RANDOM_DRAW_PLAN_H_
#define TESSERA_TESTS_PLANS_RANDOM_DRAW_PLAN_H_

#include <cstdint>
#include <vector>

#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/trained_models.h"

namespace tessera {

// Returns Plan `number` of a seed, for one of the models. The same on every machine.
PlanCase DrawPlan(const std::vector<TrainedModel>& models, uint64_t seed, uint64_t number);

// What a Plan chooses.
struct Traits {
  bool groups = false;
  bool two_flat_axes = false;
  bool updates_or_stores = false;  // of states; or the signature of an update
};
Traits TraitsOf(const TrainedModel& model, const PlanCase& drawn);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_DRAW_PLAN_H_
