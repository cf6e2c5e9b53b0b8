// Whether a saved Plan still holds.
#ifndef TESSERA_TOOLS_PLAN_HOLDS_H_
#define TESSERA_TOOLS_PLAN_HOLDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "tools/plan/cell.h"

namespace tessera {

struct PlanCheck {
  bool holds = false;
  std::string line;  // for the user: "a.textproto holds for osdp on 2 ranks: ..."
};

// Checks the Plan in a file for a request, whose strategy makes Plans: whether a rank has the
// memory that it needs, and then whether the strategy would still make it. Errors are as for
// PlanCell; one of the Plan, which may be for another model or another number of ranks, names the
// file.
absl::StatusOr<PlanCheck> CheckSavedPlan(const std::string& file, const CellRequest& request,
                                         const ModelDefinition& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_HOLDS_H_
