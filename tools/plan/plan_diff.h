// The decisions in which two Plans differ, and what that changes in the cost of a step.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_PLAN_PLAN_DIFF_H_
#define TESSERA_TOOLS_PLAN_PLAN_DIFF_H_

#include <string>
#include <vector>

#include "core/proto/plan.pb.h"
#include "tools/plan/cell.h"
#include "tools/plan/layer_names.h"

namespace tessera {

// A decision that two Plans make differently.
struct DecisionDiff {
  std::string subject;  // "layout of blocks.*.mlp.fc.weight"
  std::string a, b;     // the decisions; "" if the Plan makes none
  int count = 1;        // subjects that differ so, in equal layers
};

// Returns the decisions about the training step in which two completed Plans differ, in the order
// of the Plans' fields. If their meshes differ in nothing but the names of axes, these names are no
// difference. Kernels are left out, and so are redistributions that only one Plan needs. `layers`
// are those of the model.
std::vector<DecisionDiff> DiffPlans(const Plan& a, const Plan& b, const LayerNames& layers);

// Returns the differences of two Cells of one model as text: decisions, and then costs side by
// side.
std::string DiffText(const Cell& a, const Cell& b);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_PLAN_DIFF_H_
