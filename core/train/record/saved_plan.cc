#include "core/train/record/saved_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/text/quote.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/record/plan_text.h"

namespace tessera {
namespace {

// Checks that a Plan is complete, as every saved Plan must be.
absl::Status CheckCompletePlan(const Plan& plan) {
  if (plan.format() == 0 || plan.stages_size() == 0) {
    return absl::DataLossError("the Plan is not complete: it has no format or no stage");
  }
  for (const PlanPart& part : plan.stages(0).parts()) {
    if (part.micro_batches() > 0) continue;
    return absl::DataLossError(
        absl::StrCat("the Plan's part for graph ", Quote(part.graph()), " has no micro_batches"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> ReadPlan(const Checkpoint& checkpoint) {
  absl::StatusOr<Plan> plan = ParsePlanText(checkpoint.plan());
  const absl::Status status = plan.ok() ? CheckCompletePlan(*plan) : plan.status();
  if (status.ok()) return plan;
  return absl::DataLossError(
      absl::StrCat(checkpoint.folder(), "/", kPlanFile, ": ", status.message()));
}

}  // namespace tessera
