#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/report/charts/axis.h"
#include "tools/report/charts/bar_chart.h"
#include "tools/report/charts/decision_map.h"
#include "tools/report/charts/loss_chart.h"
#include "tools/report/charts/memory_chart.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string TicksOf(const Axis& axis) {
  return absl::StrJoin(axis.ticks, " | ",
                       [](std::string* out, const Tick& tick) { absl::StrAppend(out, tick.text); });
}

TEST(SvgTest, EscapesAllThatMarksUp) {
  EXPECT_EQ(Escape("</script><b>&\"'"), "&lt;/script&gt;&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(Escape(absl::string_view("a\0b\x1b", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(Escape("\xC3\xA9\n"), "\xC3\xA9\n");
}

TEST(SvgTest, NumbersAreShort) {
  EXPECT_EQ(Coordinate(12.5), "12.5");
  EXPECT_EQ(Coordinate(100), "100");
  EXPECT_EQ(Coordinate(-0.001), "0");
  EXPECT_EQ(Percent(1.0 / 3), "33.33%");
  EXPECT_EQ(Percent(7), "100%");
}

TEST(AxisTest, TicksAreRound) {
  EXPECT_EQ(TicksOf(SecondsAxis(0.106)), "0 | 20 ms | 40 ms | 60 ms | 80 ms | 100 ms | 120 ms");
  EXPECT_EQ(TicksOf(ExactSecondsAxis(0.106)), "0 | 20 ms | 40 ms | 60 ms | 80 ms | 100 ms");
  EXPECT_EQ(TicksOf(SecondsAxis(3e-5)), "0 | 5 us | 10 us | 15 us | 20 us | 25 us | 30 us");
  EXPECT_EQ(TicksOf(BytesAxis(int64_t{3} << 30)),
            "0 | 512 MiB | 1 GiB | 1.5 GiB | 2 GiB | 2.5 GiB | 3 GiB");
  EXPECT_EQ(TicksOf(ValuesAxis(2.04, 4.43)), "2.0 | 2.5 | 3.0 | 3.5 | 4.0 | 4.5");
  EXPECT_EQ(TicksOf(StepsAxis(1, 4)), "1 | 2 | 3 | 4");
}

TEST(AxisTest, NothingToShowIsNoFault) {
  EXPECT_EQ(SecondsAxis(0).min, 0);
  EXPECT_GT(SecondsAxis(0).max, 0);
  EXPECT_GT(BytesAxis(0).max, 0);
  const Axis flat = ValuesAxis(2, 2);
  EXPECT_LT(flat.min, 2);
  EXPECT_GT(flat.max, 2);
  EXPECT_GT(StepsAxis(1, 1).max, 1);
}

TEST(BarChartTest, SegmentsFollowEachOther) {
  BarChart chart;
  chart.axis = SecondsAxis(4);
  chart.axis.max = 4;
  Bar bar = {
      "predicted", {{"computation", 1, "1 s", 0}, {"exposed", 2, "2 s", 1}}, BarRange{2, 3}, "3 s"};
  chart.groups.push_back({"fsdp", "", {bar}, 3.0});
  const std::string html = BarChartHtml(chart);
  EXPECT_THAT(html, HasSubstr("x=\"0%\" y=\"2\" width=\"25%\""));
  EXPECT_THAT(html, HasSubstr("x=\"25%\" y=\"2\" width=\"50%\""));
  EXPECT_THAT(html, HasSubstr("class=\"limit\" x1=\"75%\""));
  EXPECT_THAT(html,
              HasSubstr("aria-label=\"fsdp, predicted: 3 s (computation 1 s, exposed 2 s)\""));
}

TEST(LossChartTest, NoFiniteLossNoChart) {
  EXPECT_EQ(LossChartHtml({}), "");
  EXPECT_EQ(LossChartHtml({{"a", 1, {std::numeric_limits<double>::quiet_NaN()}}}), "");
}

TEST(LossChartTest, LossesThatAreNotFiniteInterruptTheLine) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string html =
      LossChartHtml({{"a", 1, {4, 3, nan, 2, 1}}, {"b", 1, {4, 3, 2.5, 2, 1.25}}});
  EXPECT_THAT(html, HasSubstr("d=\"M0 0L250 333.33M750 666.67L1000 1000\""));
  EXPECT_THAT(html, HasSubstr("The largest difference of a loss from that of a is 0.25."));
}

TEST(MemoryChartTest, AreasEndAtTheirBytes) {
  LiveMemory memory;
  memory.points = {{0, {1024}}, {1, {1024, 1024}}, {2, {1024}}};
  memory.peak = 1;
  Axis seconds = ExactSecondsAxis(2), bytes = BytesAxis(2048);
  const std::string html = MemoryChartHtml("0", "fsdp", memory, seconds, bytes);
  // Parameters are the lower half of the chart, and gradients the upper one in the second half.
  EXPECT_THAT(html, AllOf(HasSubstr("d=\"M0 500H1000V1000H0Z\""),
                          HasSubstr("d=\"M0 500H500V0H1000V500H1000V500H0Z\""),
                          HasSubstr("peak 2.00 KiB"), Not(HasSubstr("optimizer"))));
}

TEST(DecisionMapTest, ARowForEachSubjectIsColouredByItsChoice) {
  EXPECT_EQ(DecisionMapHtml("osdp", {}), "");
  const ShownAlternative other = {"replicated <", "+1.25 ms", "-1.50 MiB", true};
  const std::string html = DecisionMapHtml("osdp", {{"blocks.{0-3}", 4, "sharded", {other}},
                                                    {"wte", 1, "replicated <", {}},
                                                    {"ln_f", 1, "sharded", {}}});
  EXPECT_THAT(html, HasSubstr("<span>blocks.{0-3}</span>"));
  EXPECT_THAT(html, HasSubstr(absl::StrCat("fill=\"", FillOf(1),
                                           "\"/></svg><span>replicated &lt;</span>")));
  EXPECT_THAT(html, HasSubstr("replicated &lt; (exact)</td><td"));
  EXPECT_THAT(html, AllOf(HasSubstr("+1.25 ms"), HasSubstr("-1.50 MiB")));
  size_t first = 0;
  for (size_t at = html.find(FillOf(0)); at != std::string::npos; at = html.find(FillOf(0), at + 1))
    ++first;
  EXPECT_EQ(first, 2u);
}

TEST(DecisionMapTest, ManyDecisionsAreCounted) {
  std::vector<ShownDecision> decisions;
  for (int i = 0; i < 250; ++i) decisions.push_back({absl::StrCat("part", i), 1, "sharded", {}});
  EXPECT_THAT(DecisionMapHtml("osdp", decisions), HasSubstr("and 50 more decisions"));
}

}  // namespace
}  // namespace tessera
