#include "tools/plan/explanation.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/plan/plan_report.h"
#include "tools/plan/testing/small_cells.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the figures of a step, for whose Plan a strategy gives its reasons.
Figures FiguresWithReasons(const Cell& cell) {
  Figures figures = FiguresOf(cell);
  strategy::Explanation& reasons = figures.explanation;
  reasons.set_step_seconds(0.1);
  reasons.set_peak_bytes(int64_t{10} << 20);
  reasons.set_bound_seconds(0.08);
  reasons.set_least_limit_bytes(int64_t{6} << 20);
  reasons.add_notes("a note");
  for (const char* block : {"blocks.0", "blocks.1"}) {
    auto& decision = *reasons.add_decisions();
    decision.set_subject(block);
    decision.set_choice("sharded");
    auto& estimated = *decision.add_alternatives();
    estimated.set_choice("replicated");
    estimated.set_step_seconds(0.0985);
    estimated.set_peak_bytes(int64_t{12} << 20);
    auto& exact = *decision.add_alternatives();
    exact.set_choice("sliced");
    exact.set_step_seconds(0.102);
    exact.set_peak_bytes(int64_t{9} << 20);
    exact.set_lowered(true);
  }
  return figures;
}

TEST(ExplanationTest, TheReasonsOfAStrategyAreATableOfItsDecisions) {
  const Cell cell = SmallCell("fsdp", 2);
  EXPECT_THAT(Explanation(FiguresOf(cell), ProfileOf(cell), {}), Not(HasSubstr("why this Plan")));
  EXPECT_THAT(Explanation(FiguresWithReasons(cell), ProfileOf(cell), {}), HasSubstr(R"(
why this Plan, by fsdp
within 25.0 % of a bound of 80.0 ms
the smallest limit for which it knows a Plan is 6.00 MiB (--memory_limit=6291456)
a note

        step         peak  decision, and estimated changes by other choices
                           blocks.{0-1}: sharded
     -1.5 ms    +2.00 MiB    replicated
       +2 ms    -1.00 MiB    sliced (exact)
)"));
}

TEST(ExplanationTest, TheFileHasAllDecisions) {
  const Cell cell = SmallCell("fsdp", 2);
  const auto json = nlohmann::json::parse(PlanJson({}, {{FiguresWithReasons(cell), std::nullopt}}));
  const auto& reasons = json["steps"][0]["explanation"];
  EXPECT_EQ(reasons["bound_seconds"], 0.08);
  EXPECT_NEAR(reasons["gap"].get<double>(), 0.25, 1e-12);
  EXPECT_EQ(reasons["least_limit_bytes"], 6 << 20);
  EXPECT_EQ(reasons["notes"][0], "a note");
  ASSERT_EQ(reasons["decisions"].size(), 2u);
  EXPECT_EQ(reasons["decisions"][1]["subject"], "blocks.1");
  EXPECT_EQ(reasons["decisions"][1]["alternatives"][1]["lowered"], true);
  const auto without = nlohmann::json::parse(PlanJson({}, {{FiguresOf(cell), std::nullopt}}));
  EXPECT_FALSE(without["steps"][0].contains("explanation"));
}

}  // namespace
}  // namespace tessera
