// The settings of a run that its Plan has, whoever makes the Plan: micro-batches, recomputation,
// precision.
#ifndef TESSERA_CORE_PLAN_RUN_SETTINGS_H_
#define TESSERA_CORE_PLAN_RUN_SETTINGS_H_

#include "core/proto/plan.pb.h"

namespace tessera {

// Whether a part says what is recomputed: it lists blocks, or is completed.
bool StatesRecomputation(const PlanPart& part);

// Fills in what `plan` leaves open with `settings`, a Plan of parts and a precision: parts for
// other Graphs, micro-batches, recomputation, precision. What `plan` states stays.
//
// Thread safety: a pure function.
void FillInSettings(const Plan& settings, Plan& plan);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_RUN_SETTINGS_H_
