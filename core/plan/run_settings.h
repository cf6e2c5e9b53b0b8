// The settings of a run that do not depend on which strategy makes the Plan: micro-batches,
// recomputation, precision.
#ifndef TESSERA_CORE_PLAN_RUN_SETTINGS_H_
#define TESSERA_CORE_PLAN_RUN_SETTINGS_H_

#include "core/proto/plan.pb.h"

namespace tessera {

// Returns whether a part decides what is recomputed: it lists something, or it is completed.
bool StatesRecomputation(const PlanPart& part);

// Fills in what `plan` leaves open from `settings`, a Plan with parts and a precision: parts for
// other Graphs, micro-batches, recomputation, precision. What `plan` states is not changed.
//
// Thread safety: a pure function.
void FillInSettings(const Plan& settings, Plan& plan);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_RUN_SETTINGS_H_
