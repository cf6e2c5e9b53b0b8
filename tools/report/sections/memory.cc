#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/text/human_units.h"
#include "tools/report/charts/axis.h"
#include "tools/report/charts/bar_chart.h"
#include "tools/report/charts/memory_chart.h"
#include "tools/report/charts/svg.h"
#include "tools/report/sections/sections.h"

namespace tessera {
namespace {

// A limit is drawn if it is at most so many times the largest peak.
constexpr double kNearLimit = 1.5;

// Returns the fill of a category of StepCost::Memory, by its name.
int FillOfCategory(const std::string& name) {
  for (const Category category : kAllCategories) {
    if (CategoryName(category) == name) return static_cast<int>(category);
  }
  return kNoFill;
}

// Returns the planned peak by category; the rest is memory between live buffers.
Bar PlannedBar(const StepCost& cost) {
  Bar bar;
  bar.label = "planned";
  int64_t live = 0;
  for (const StepCost::Memory& memory : cost.memory()) {
    live += memory.bytes();
    bar.segments.push_back(
        {memory.on_host() ? absl::StrCat(memory.category(), " on the host") : memory.category(),
         static_cast<double>(memory.bytes()), FormatBytes(memory.bytes()),
         FillOfCategory(memory.category())});
  }
  if (const int64_t unused = cost.peak_bytes() - live; unused > 0) {
    bar.segments.push_back({"between buffers, or for other Programs", static_cast<double>(unused),
                            FormatBytes(unused), kNoFill});
  }
  bar.text = FormatBytes(cost.peak_bytes());
  return bar;
}

BarGroup PeaksOf(const ReportedStrategy& strategy, double* largest) {
  BarGroup group;
  group.label = strategy.label;
  group.note = strategy.remark;
  if (strategy.estimated.has_value() && strategy.estimated->peak_bytes() > 0) {
    group.bars.push_back(PlannedBar(*strategy.estimated));
    *largest = std::max(*largest, static_cast<double>(strategy.estimated->peak_bytes()));
  }
  if (strategy.measured.has_value() && strategy.measured->peak_bytes > 0) {
    const int64_t bytes = strategy.measured->peak_bytes;
    group.bars.push_back({"allocated",
                          {{"allocated", static_cast<double>(bytes), FormatBytes(bytes), kNoFill}},
                          std::nullopt,
                          FormatBytes(bytes)});
    *largest = std::max(*largest, static_cast<double>(bytes));
  }
  if (strategy.memory_limit_bytes > 0) {
    group.limit = static_cast<double>(strategy.memory_limit_bytes);
    absl::StrAppend(&group.note, group.note.empty() ? "" : "; ", "limit ",
                    FormatBytes(strategy.memory_limit_bytes));
  }
  return group;
}

std::string PeaksHtml(const ReportData& data) {
  BarChart chart;
  chart.name = "Peak memory of a rank.";
  double largest = 0, axis_end = 0;
  std::map<int, std::string> used;  // categories by fill
  for (const ReportedStrategy& strategy : data.strategies) {
    chart.groups.push_back(PeaksOf(strategy, &largest));
    if (!strategy.estimated.has_value()) continue;
    for (const StepCost::Memory& memory : strategy.estimated->memory()) {
      used[FillOfCategory(memory.category())] = memory.category();
    }
  }
  if (largest <= 0) return "";
  axis_end = largest;
  bool any_limit = false;
  for (BarGroup& group : chart.groups) {
    if (!group.limit.has_value() || *group.limit > kNearLimit * largest) continue;
    axis_end = std::max(axis_end, *group.limit);
    any_limit = true;
  }
  chart.caption = absl::StrCat("Planned bytes are those at the moment when the most are in use.",
                               any_limit ? " The dashed line is the limit." : "");
  chart.axis = BytesAxis(static_cast<int64_t>(axis_end));
  for (const auto& [fill, name] : used) chart.legend.push_back({fill, name});
  chart.legend.push_back({kNoFill, "not divided by category"});
  return BarChartHtml(chart);
}

std::string OverTimeHtml(const ReportData& data) {
  std::string html;
  int64_t largest = 0;
  for (const ReportedStrategy& strategy : data.strategies) {
    if (!strategy.view.has_value()) continue;
    for (const LiveMemory& memory : strategy.view->memory) {
      largest = std::max(largest, memory.peak_point().total());
    }
  }
  for (size_t i = 0; i < data.strategies.size(); ++i) {
    const ReportedStrategy& strategy = data.strategies[i];
    if (!strategy.view.has_value()) continue;
    const Axis seconds = ExactSecondsAxis(strategy.view->step_seconds);
    for (const LiveMemory& memory : strategy.view->memory) {
      const std::string id = absl::StrCat(i, memory.side == MemorySide::kHost ? "-host" : "");
      html += MemoryChartHtml(id, strategy.label, memory, seconds, BytesAxis(largest));
    }
  }
  if (html.empty()) return "";
  return absl::StrCat(
      "<h3>Memory over time</h3>\n<p class=\"dim\">Live bytes of a rank by the predicted time of a "
      "step, with the fills of the bars above. All charts have the same axis of bytes.</p>\n",
      html);
}

}  // namespace

Section MemorySection(const ReportData& data) {
  const std::string html = absl::StrCat(PeaksHtml(data), OverTimeHtml(data));
  return {"memory", "Memory",
          html.empty() ? "<p class=\"empty\">No strategy has planned memory.</p>\n" : html};
}

}  // namespace tessera
