#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/text/human_units.h"
#include "tools/report/charts/axis.h"
#include "tools/report/charts/bar_chart.h"
#include "tools/report/charts/svg.h"
#include "tools/report/charts/timeline_chart.h"
#include "tools/report/sections/sections.h"

namespace tessera {
namespace {

constexpr int kComputationFill = 0, kExposedFill = 1;
// Timelines share an axis, unless the longest step is so many times as long as the shortest.
constexpr double kComparable = 8;

// Returns a bar of a step; `exposed` is a part of its seconds.
Bar StepBar(const std::string& label, double seconds, double exposed) {
  const double computation = std::max(seconds - exposed, 0.0);
  return {label,
          {{"computation", computation, FormatSeconds(computation), kComputationFill},
           {"exposed communication", exposed, FormatSeconds(exposed), kExposedFill}},
          std::nullopt,
          FormatSeconds(seconds)};
}

bool IsPriced(const std::optional<StepCost>& cost) {
  return cost.has_value() && cost->step_seconds() > 0;
}

BarGroup TimesOf(const ReportedStrategy& strategy) {
  BarGroup group;
  group.label = strategy.label;
  group.note = strategy.remark;
  if (IsPriced(strategy.estimated)) {
    group.bars.push_back(StepBar("predicted", strategy.estimated->step_seconds(),
                                 strategy.estimated->exposed_seconds()));
  }
  if (IsPriced(strategy.calibrated)) {
    group.bars.push_back(StepBar("by the rounds' prices", strategy.calibrated->step_seconds(),
                                 strategy.calibrated->exposed_seconds()));
  }
  if (strategy.measured.has_value()) {
    const MeasuredStep& measured = *strategy.measured;
    Bar bar = StepBar("measured", measured.median_seconds,
                      std::min(measured.exposed_seconds, measured.median_seconds));
    bar.range = BarRange{measured.first_quartile_seconds, measured.third_quartile_seconds};
    absl::StrAppend(&bar.text, " (", FormatSeconds(measured.first_quartile_seconds), " - ",
                    FormatSeconds(measured.third_quartile_seconds), ")");
    group.bars.push_back(std::move(bar));
  }
  return group;
}

double LongestOf(const BarGroup& group) {
  double longest = 0;
  for (const Bar& bar : group.bars) {
    double sum = 0;
    for (const BarSegment& segment : bar.segments) sum += segment.value;
    if (bar.range.has_value()) sum = std::max(sum, bar.range->high);
    longest = std::max(longest, sum);
  }
  return longest;
}

DataTable TimesTable(const std::vector<BarGroup>& groups) {
  DataTable table = {
      "Step times", {"strategy", "time", "step", "computation", "exposed communication"}, {}};
  for (const BarGroup& group : groups) {
    for (const Bar& bar : group.bars) {
      table.rows.push_back(
          {group.label, bar.label, bar.text, bar.segments[0].text, bar.segments[1].text});
    }
  }
  return table;
}

}  // namespace

Section StepTimeSection(const ReportData& data) {
  BarChart chart;
  chart.name = "Time of a step.";
  chart.caption = "Exposed communication is the time in which nothing is computed.";
  if (absl::c_any_of(data.strategies,
                     [](const ReportedStrategy& each) { return each.measured.has_value(); })) {
    chart.caption +=
        " The mark on a measured bar reaches from the first to the third quartile of its steps.";
  }
  if (absl::c_any_of(data.strategies,
                     [](const ReportedStrategy& each) { return each.calibrated.has_value(); })) {
    chart.caption +=
        " By the rounds' prices: predicted once more, from the times of kernels and collectives "
        "that were measured beside the steps.";
  }
  double longest = 0;
  for (const ReportedStrategy& strategy : data.strategies) {
    chart.groups.push_back(TimesOf(strategy));
    longest = std::max(longest, LongestOf(chart.groups.back()));
  }
  Section section = {"step-time", "Step time", ""};
  if (longest <= 0) {
    section.html = "<p class=\"empty\">No strategy has a predicted or measured step time.</p>\n";
    return section;
  }
  chart.axis = SecondsAxis(longest);
  chart.legend = {{kComputationFill, "computation"}, {kExposedFill, "exposed communication"}};
  section.html = absl::StrCat(BarChartHtml(chart), TableBehind(TimesTable(chart.groups)));
  return section;
}

Section TimelineSection(const ReportData& data) {
  double longest = 0, shortest = 0;
  for (const ReportedStrategy& strategy : data.strategies) {
    if (!strategy.view.has_value()) continue;
    const double seconds = strategy.view->step_seconds;
    longest = std::max(longest, seconds);
    shortest = shortest == 0 ? seconds : std::min(shortest, seconds);
  }
  Section section = {"timelines", "Timelines", ""};
  if (longest <= 0) {
    section.html = "<p class=\"empty\">No strategy has a predicted timeline.</p>\n";
    return section;
  }
  const bool share_axis = longest <= kComparable * shortest;
  section.html = absl::StrCat(
      "<p class=\"dim\">Predicted, for one rank. Each row is one kind of work. Where a row is "
      "lower "
      "than its full height, the work runs during that share of the time. ",
      share_axis ? "All timelines have the same axis." : "Each timeline has its own axis.",
      "</p>\n");
  for (const ReportedStrategy& strategy : data.strategies) {
    if (!strategy.view.has_value()) continue;
    const double end = share_axis ? longest : strategy.view->step_seconds;
    section.html += TimelineHtml(strategy.label, *strategy.view, ExactSecondsAxis(end));
  }
  return section;
}

}  // namespace tessera
