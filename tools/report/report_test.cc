#include "tools/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/report/testing/sample_data.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSections[] = {"summary", "step-time", "timelines", "memory", "communication",
                                     "losses",  "plans",     "checks",    "machine"};

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ReportTest, HasAllSectionsAndNoScript) {
  for (const int strategies : {2, 6}) {
    const std::string html = ReportHtml(SampleComparison(strategies));
    for (const char* const section : kSections) {
      EXPECT_EQ(Count(html, absl::StrCat("<section id=\"", section, "\"")), 1) << section;
      EXPECT_EQ(Count(html, absl::StrCat("href=\"#", section, "\"")), 1) << section;
    }
    EXPECT_EQ(Count(html, "<section"), static_cast<int>(std::size(kSections)));
    EXPECT_THAT(html, Not(HasSubstr("<script")));
    EXPECT_THAT(html, Not(HasSubstr("http://")));
    EXPECT_THAT(html, Not(HasSubstr("https://")));
    EXPECT_THAT(html, Not(HasSubstr("nan")));
    EXPECT_EQ(Count(html, "<div"), Count(html, "</div>"));
    EXPECT_EQ(Count(html, "<svg"), Count(html, "</svg>"));
    EXPECT_EQ(Count(html, "<figure"), Count(html, "</figure>"));
  }
}

TEST(ReportTest, ShowsWhatDoesNotFitAndWhatFailed) {
  const ReportData data = SampleComparison(6);
  const std::string html = ReportHtml(data);
  EXPECT_THAT(html, HasSubstr("<b>data_parallel: does not fit.</b> data_parallel needs "));
  EXPECT_THAT(
      html,
      HasSubstr("=plans/of_another_team/fully_sharded_within_a_host.textproto: failed.</b> "));
  // Its planned memory and its timeline are shown all the same.
  EXPECT_THAT(html, HasSubstr("Live memory, data_parallel"));
  EXPECT_THAT(html, HasSubstr("Work of a step, data_parallel"));
  EXPECT_THAT(html, Not(HasSubstr("Live memory, &lt;b&gt;")));
}

TEST(ReportTest, APlanHasNoMeasuredValues) {
  const std::string html = ReportHtml(SamplePlanning());
  EXPECT_THAT(html, Not(HasSubstr("measured step")));
  EXPECT_THAT(html, HasSubstr("Nothing was trained, so there are no losses."));
  EXPECT_THAT(html, HasSubstr("Nothing was run, so nothing was compared."));
  EXPECT_THAT(html, HasSubstr("The layers are as those of fully_sharded, 2 ranks."));
}

TEST(ReportTest, NoStrategyIsNoFault) {
  ReportData data;
  data.title = "nothing";
  const std::string html = ReportHtml(data);
  EXPECT_THAT(html, HasSubstr("No strategy has a Plan."));
  EXPECT_THAT(html, HasSubstr("No strategy has planned memory."));
  ReportedStrategy strategy;
  strategy.label = "bare";
  strategy.outcome = ReportedOutcome::kNotRun;
  data.strategies.push_back(strategy);
  EXPECT_THAT(ReportHtml(data), HasSubstr("No strategy has a predicted timeline."));
}

// Every text of a strategy may be a user's: a label, a path, a fault.
TEST(ReportTest, HostileTextsAreEscaped) {
  const std::string hostile = "</script><b>&\"'";
  ReportData data = SampleComparison(2);
  data.title = data.model = data.machine = data.ranks = data.cluster = hostile;
  data.written_by = data.recommendation = hostile;
  data.notes = data.checks = data.commands = {hostile};
  for (ReportedStrategy& strategy : data.strategies) {
    strategy.label += hostile;
    strategy.remark = strategy.fault = hostile;
    for (StepLane& lane : strategy.view->lanes) lane.work = lane.stream = hostile;
    PlanRows& plan = strategy.view->plan;
    plan.mesh = plan.logits = plan.precision = hostile;
    plan.passes = plan.recompute = {hostile};
    for (PlanRow& row : plan.rows) {
      row.label = hostile;
      row.groups = {hostile};
      row.operators.emplace_back(hostile, hostile);
      for (ParameterCell& cell : row.cells) cell.name = cell.layout = cell.shape = hostile;
    }
    strategy.estimated->mutable_collectives(0)->set_operation(hostile);
    strategy.estimated->mutable_memory(0)->set_category(hostile);
  }
  const std::string html = ReportHtml(data);
  EXPECT_THAT(html, Not(HasSubstr("</script>")));
  EXPECT_THAT(html, Not(HasSubstr("<b>&\"'")));
  EXPECT_THAT(html, Not(HasSubstr("&\"")));
  EXPECT_GT(Count(html, "&lt;/script&gt;&lt;b&gt;&amp;&quot;&#39;"), 50);
}

TEST(ReportTest, TheSameDataGiveTheSameBytes) {
  EXPECT_EQ(ReportHtml(SampleComparison(2)), ReportHtml(SampleComparison(2)));
}

TEST(ReportTest, SixStrategiesOnManyLayersStaySmall) {
  EXPECT_LT(ReportHtml(SampleComparison(6, /*layers=*/96, /*channels=*/16)).size(), 2'000'000);
}

// The largest report: no two blocks of any strategy are equal, and all lanes and curves are full.
TEST(ReportTest, PlansThatDifferInEveryBlockStaySmall) {
  ReportData data = SampleComparison(6, /*layers=*/96, /*channels=*/16);
  data.strategies.resize(5);
  data.strategies.push_back(data.strategies[1]);
  for (ReportedStrategy& strategy : data.strategies) {
    PlanRows& plan = strategy.view->plan;
    const PlanRow block =
        *std::max_element(plan.rows.begin(), plan.rows.end(),
                          [](const PlanRow& a, const PlanRow& b) { return a.units < b.units; });
    plan.rows.clear();
    for (int i = 0; i < 200; ++i) {
      plan.rows.push_back(block);
      plan.rows.back().units = 1;
      plan.rows.back().label = absl::StrCat(strategy.label, ".blocks.", i);
    }
    for (StepLane& lane : strategy.view->lanes) {
      lane.spans.clear();
      for (int i = 0; i < 300; ++i) lane.spans.push_back({i * 1.001e-5, (i + 1) * 1.001e-5, 0.123});
    }
    strategy.losses.assign(10000, 3.21);
  }
  const std::string html = ReportHtml(data);
  EXPECT_LT(html.size(), 2'000'000);
  EXPECT_THAT(html, HasSubstr("more units"));
}

}  // namespace
}  // namespace tessera
