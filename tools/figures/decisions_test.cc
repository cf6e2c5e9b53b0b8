#include "tools/figures/decisions.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

constexpr double kSeconds = 0.1;
constexpr int64_t kBytes = int64_t{10} << 20;

// Returns the reasons for a Plan with such a step.
strategy::Explanation Reasons() {
  strategy::Explanation explanation;
  explanation.set_step_seconds(kSeconds);
  explanation.set_peak_bytes(kBytes);
  return explanation;
}

void AddDecision(const std::string& subject, const std::string& choice, double more_seconds,
                 int64_t more_bytes, strategy::Explanation* explanation) {
  auto& decision = *explanation->add_decisions();
  decision.set_subject(subject);
  decision.set_choice(choice);
  auto& alternative = *decision.add_alternatives();
  alternative.set_choice("another");
  alternative.set_step_seconds(kSeconds + more_seconds);
  alternative.set_peak_bytes(kBytes + more_bytes);
}

std::vector<std::string> SubjectsOf(const strategy::Explanation& explanation) {
  std::vector<std::string> subjects;
  for (const ShownDecision& each : ShownDecisions(explanation)) {
    subjects.push_back(each.subject);
  }
  return subjects;
}

TEST(DecisionsTest, AlternativesAreChangesOfTheDecidedStep) {
  strategy::Explanation explanation = Reasons();
  AddDecision("wte", "sharded", 0.00125, -(3 << 19), &explanation);
  const std::vector<ShownDecision> shown = ShownDecisions(explanation);
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].choice, "sharded");
  EXPECT_THAT(shown[0].alternatives,
              ElementsAre(ShownAlternative{"another", "+1.25 ms", "-1.50 MiB", false}));
}

TEST(DecisionsTest, EqualNeighboursAreOne) {
  strategy::Explanation explanation = Reasons();
  for (const char* path : {"blocks.0", "blocks.1", "blocks.2"}) {
    AddDecision(path, "sharded", 0.001, 5, &explanation);
  }
  AddDecision("blocks.3", "replicated", 0.001, 5, &explanation);  // another choice
  AddDecision("blocks.4", "sharded", 0.001, 6, &explanation);     // another alternative
  AddDecision("blocks.5", "sharded", 0.001, 5, &explanation);
  AddDecision("wte", "sharded", 0.001, 5, &explanation);  // another kind of subject
  EXPECT_THAT(SubjectsOf(explanation),
              ElementsAre("blocks.{0-2}", "blocks.3", "blocks.4", "blocks.5", "wte"));
  EXPECT_EQ(ShownDecisions(explanation)[0].subjects, 3);
}

TEST(DecisionsTest, NeighboursDifferInTheSameNumber) {
  strategy::Explanation explanation = Reasons();
  for (const char* path : {"a.0.b.0", "a.0.b.1", "a.1.b.0"}) {
    AddDecision(path, "sharded", 0.001, 5, &explanation);
  }
  EXPECT_THAT(SubjectsOf(explanation), ElementsAre("a.0.b.{0-1}", "a.1.b.0"));
}

TEST(DecisionsTest, TheGapIsToTheBound) {
  strategy::Explanation explanation = Reasons();
  EXPECT_EQ(BoundText(explanation), "");
  EXPECT_FALSE(HasReasons(explanation));
  explanation.set_bound_seconds(0.08);
  EXPECT_EQ(BoundText(explanation), "within 25.0 % of a bound of 80.0 ms");
  EXPECT_NEAR(GapToBound(explanation), 0.25, 1e-12);
  EXPECT_TRUE(HasReasons(explanation));
  // A bound that the step undercuts by rounding, and one that is no time.
  explanation.set_bound_seconds(0.1 + 1e-9);
  EXPECT_EQ(GapToBound(explanation), 0);
  explanation.set_bound_seconds(std::numeric_limits<double>::infinity());
  EXPECT_EQ(BoundText(explanation), "");
}

}  // namespace
}  // namespace tessera
