#include "tests/plans/random/check_plan.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/check.h"
#include "strategies/conformance/compare_training.h"

namespace tessera {
namespace {

// Of the norm of each tensor. Sums in another order differ by 1e-15.
constexpr double kTolerance = 1e-9;

Outcome OutcomeOfError(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsDataLoss(status)) return {OutcomeKind::kMemory, message};
  if (absl::StrContains(message, "ranks differ in element")) return {OutcomeKind::kWrong, message};
  if (!absl::IsInvalidArgument(status)) return {OutcomeKind::kInternal, status.ToString()};
  if (message.empty() || absl::StrContains(message, '\n')) {
    return {OutcomeKind::kInternal,
            absl::StrCat("a refusal is not one line: ", absl::CEscape(message))};
  }
  return {OutcomeKind::kRefused, message};
}

}  // namespace

Outcome CheckPlan(const std::vector<TrainedModel>& models, const PlanCase& tried) {
  const TrainedModel* const found = FindModel(models, tried.model);
  TESSERA_CHECK(found != nullptr) << "there is no model " << tried.model;
  const TrainedModel& model = *found;
  if (const absl::Status form = CheckPlanForm(tried.plan); !form.ok()) return OutcomeOfError(form);
  const absl::StatusOr<TrainingResult> result = Train(model.run, tried.plan, tried.ranks);
  if (!result.ok()) return OutcomeOfError(result.status());
  const Difference difference = Compare(model.alone, *result, kTolerance);
  if (std::isnan(difference.relative)) return {OutcomeKind::kNan, difference.where};
  if (difference.relative <= kTolerance) return {};
  return {OutcomeKind::kWrong,
          absl::StrCat(difference.where, " differs by ", difference.relative, " of its norm")};
}

}  // namespace tessera
