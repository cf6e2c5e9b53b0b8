#include "core/train/record/saved_plan.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/status_macros.h"
#include "core/text/first_error.h"
#include "core/text/quote.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

// Checks that a Plan is complete, as every saved Plan must be.
absl::Status CheckCompletePlan(const Plan& plan) {
  const absl::Status status = CheckPlanForm(plan);
  if (!status.ok()) return absl::DataLossError(status.message());
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
  Plan plan;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  absl::Status status;
  if (parser.ParseFromString(checkpoint.plan(), &plan)) {
    status = CheckCompletePlan(plan);
  } else {
    status =
        absl::DataLossError(absl::StrCat("is no plan: line ", error.line(), ": ", error.message()));
  }
  if (status.ok()) return plan;
  return absl::Status(status.code(),
                      absl::StrCat(checkpoint.folder(), "/", kPlanFile, ": ", status.message()));
}

}  // namespace tessera
