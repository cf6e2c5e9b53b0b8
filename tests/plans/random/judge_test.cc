#include "tests/plans/random/judge.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "core/status/check.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::vector<PlanCase> PlansOfModels(const std::vector<std::string>& models) {
  std::vector<PlanCase> plans;
  for (const std::string& model : models) plans.emplace_back().model = model;
  return plans;
}

Outcome Check(const PlanCase& plan) {
  if (plan.model == "crash") {
    std::signal(SIGSEGV, SIG_DFL);  // instead of the handler that a sanitizer has installed
    raise(SIGSEGV);
  }
  TESSERA_CHECK(plan.model != "check") << "an invariant";
  if (plan.model == "exit") std::exit(0);
  while (plan.model == "hang") sleep(1);
  return {plan.model == "nan" ? OutcomeKind::kNan : OutcomeKind::kRight, plan.model};
}

TEST(JudgeTest, AttributesEachEndToItsPlan) {
  const std::vector<Outcome> outcomes =
      Judge(PlansOfModels({"right", "crash", "nan", "check", "exit", "hang", "right"}), Check, 1);
  ASSERT_EQ(outcomes.size(), 7u);
  const OutcomeKind expected[] = {OutcomeKind::kRight, OutcomeKind::kCrash, OutcomeKind::kNan,
                                  OutcomeKind::kCrash, OutcomeKind::kCrash, OutcomeKind::kHang,
                                  OutcomeKind::kRight};
  for (size_t i = 0; i < outcomes.size(); ++i) EXPECT_EQ(outcomes[i].kind, expected[i]) << i;
  EXPECT_EQ(outcomes[0].message, "right");
  EXPECT_TRUE(absl::StrContains(outcomes[1].message, "signal 11")) << outcomes[1].message;
  EXPECT_TRUE(absl::StrContains(outcomes[3].message, "an invariant")) << outcomes[3].message;
}

}  // namespace
}  // namespace tessera
