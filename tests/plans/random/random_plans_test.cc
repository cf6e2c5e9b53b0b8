// Trains small models under some hundred random Plans. `random_plans` tries more of them.
#include <iostream>
#include <vector>

#include "gtest/gtest.h"
#include "tests/plans/random/check_plan.h"
#include "tests/plans/random/judge.h"
#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/trained_models.h"
#include "tests/plans/random/try_plans.h"

namespace tessera {
namespace {

const std::vector<TrainedModel>& Models() {
  static const auto* const models = new std::vector<TrainedModel>(TrainModelsAlone());
  return *models;
}

TEST(RandomPlansTest, ThoseThatFailedOnceAreRight) {
  const auto plans = ReadPlanCases("tests/plans/random/found_plans.txt");
  ASSERT_TRUE(plans.ok()) << plans.status();
  // They are trained here, because they would take time from the limit of the first Plan.
  const std::vector<TrainedModel>& models = Models();
  const std::vector<Outcome> outcomes = Judge(
      *plans, [&models](const PlanCase& plan) { return CheckPlan(models, plan); }, 30);
  for (size_t i = 0; i < plans->size(); ++i) {
    EXPECT_EQ(outcomes[i].kind, OutcomeKind::kRight) << outcomes[i].message << "\n"
                                                     << (*plans)[i].ToString();
  }
}

TEST(RandomPlansTest, AreRightOrRefused) {
  const Summary summary = TryPlans(Models(), {.seed = 1, .count = 300});
  std::cout << summary.ToString();
  EXPECT_EQ(summary.bad(), 0);
  EXPECT_LE(summary.share_refused(), 0.08);
  EXPECT_GE(summary.share_of_groups(), 0.3);
  EXPECT_GE(summary.share_of_two_flat_axes(), 0.2);
  EXPECT_GE(summary.share_of_updates_or_stores(), 0.3);
}

TEST(RandomPlansTest, AreRightWithAllKernels) {
  const Summary summary = TryPlans(TrainModelsAlone(/*on_cpu=*/true), {.seed = 2, .count = 100});
  std::cout << summary.ToString();
  EXPECT_EQ(summary.bad(), 0);
}

}  // namespace
}  // namespace tessera
