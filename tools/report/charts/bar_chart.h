// Horizontal bars of segments, in groups, on one axis.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_BAR_CHART_H_
#define TESSERA_TOOLS_REPORT_CHARTS_BAR_CHART_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/report/charts/axis.h"
#include "tools/report/charts/svg.h"

namespace tessera {

struct BarSegment {
  std::string name;
  double value = 0;
  std::string text;  // of the value
  int fill = 0;      // see svg.h
};

// A range that is drawn over the end of a bar.
struct BarRange {
  double low = 0;
  double high = 0;
};

struct Bar {
  std::string label;
  std::vector<BarSegment> segments;  // from the left
  std::optional<BarRange> range;
  std::string text;  // of the sum, to the right
};

struct BarGroup {
  std::string label;
  std::string note;  // beside the label; may be ""
  std::vector<Bar> bars;
  std::optional<double> limit;  // a dashed line through all bars of the group
};

struct BarChart {
  std::string name;  // for the figure's caption
  std::string caption;
  Axis axis;
  std::vector<BarGroup> groups;
  std::vector<LegendEntry> legend;
};

// Returns a figure. Values beyond the axis are clamped to it.
std::string BarChartHtml(const BarChart& chart);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_BAR_CHART_H_
