#include "tests/plans/random/check_plan.h"

#include <cmath>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/plan/rewrite/precision_choice.h"
#include "core/status/check.h"
#include "strategies/conformance/compare_training.h"
#include "strategies/conformance/drawn_kernels.h"
#include "tests/plans/random/draw_steps.h"

namespace tessera {
namespace {

// The allowed share of the norm of each tensor, on the reference backend. Sums in another order
// differ by 1e-15.
constexpr double kTolerance = 1e-9;

Outcome OutcomeOfError(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsDataLoss(status)) return {OutcomeKind::kMemory, message};
  if (absl::StrContains(message, "ranks differ in element")) return {OutcomeKind::kWrong, message};
  if (!absl::IsInvalidArgument(status)) return {OutcomeKind::kInternal, status.ToString()};
  if (absl::StrContains(message, "the Plan's redistribution")) {  // drawn, or completed
    return {OutcomeKind::kInternal, message};
  }
  if (absl::StrContains(message, "instruction ")) {  // a Plan is refused before it runs
    return {OutcomeKind::kInternal, message};
  }
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
  absl::StatusOr<Plan> plan = tried.plan;
  const size_t seed = std::hash<std::string>()(tried.ToString());
  if (seed % 4 == 0) {
    plan = WithDrawnSteps(model.run, tried.plan, tried.ranks, seed / 4);
    if (!plan.ok()) return OutcomeOfError(plan.status());
  } else if (model.on_cpu) {
    plan = WithDrawnKernels(model.run, tried.plan, tried.ranks, seed);
    if (!plan.ok()) return OutcomeOfError(plan.status());
  }
  const absl::StatusOr<TrainingResult> result = Train(model.run, *plan, tried.ranks);
  if (!result.ok()) return OutcomeOfError(result.status());
  const bool lowers = LowersPrecision(*plan);
  const double tolerance = !model.on_cpu ? kTolerance : lowers ? kLoweredTolerance : kCpuTolerance;
  const Difference difference =
      model.on_cpu ? CompareTraining(model.run, lowers, model.alone, *result, tolerance)
                   : Compare(model.alone, *result, tolerance);
  if (std::isnan(difference.relative)) return {OutcomeKind::kNan, difference.where};
  if (difference.relative <= tolerance) return {};
  return {OutcomeKind::kWrong,
          absl::StrCat(difference.where, " differs by ", difference.relative, " of its norm")};
}

}  // namespace tessera
