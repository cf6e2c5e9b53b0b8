#include "tools/report/charts/bar_chart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

// Returns what a bar shows in words: "predicted: 12 ms (computation 10 ms, exposed 2 ms)".
std::string Words(const Bar& bar) {
  std::string segments =
      absl::StrJoin(bar.segments, ", ", [](std::string* out, const BarSegment& segment) {
        absl::StrAppend(out, segment.name, " ", segment.text);
      });
  return absl::StrCat(bar.label, ": ", bar.text, " (", segments, ")");
}

std::string VerticalLine(const char* style, double share, const char* y1, const char* y2) {
  return absl::StrCat("<line class=\"", style, "\" x1=\"", Percent(share), "\" x2=\"",
                      Percent(share), "\" y1=\"", y1, "\" y2=\"", y2, "\"/>");
}

std::string RangeMark(const BarRange& range, const Axis& axis) {
  const double low = axis.ShareOf(range.low), high = axis.ShareOf(range.high);
  return absl::StrCat(VerticalLine("range", low, "5", "17"), VerticalLine("range", high, "5", "17"),
                      "<line class=\"range\" x1=\"", Percent(low), "\" x2=\"", Percent(high),
                      "\" y1=\"11\" y2=\"11\"/>");
}

std::string BarRow(const Bar& bar, const BarGroup& group, const Axis& axis) {
  std::string html =
      absl::StrCat("<div class=\"bar\"><span class=\"bar-label\">", Escape(bar.label),
                   "</span><svg width=\"100%\" height=\"22\" "
                   "role=\"img\" aria-label=\"",
                   Escape(absl::StrCat(group.label, ", ", Words(bar))), "\">", VerticalGrid(axis));
  double from = 0;
  for (const BarSegment& segment : bar.segments) {
    const double begin = std::min(axis.ShareOf(from), 1.0);
    from += segment.value;
    const double end = std::min(axis.ShareOf(from), 1.0);
    if (!(end > begin)) continue;
    absl::StrAppend(&html, "<rect class=\"shape\" x=\"", Percent(begin), "\" y=\"2\" width=\"",
                    Percent(end - begin), "\" height=\"18\" fill=\"", FillOf(segment.fill),
                    "\"><title>", Escape(absl::StrCat(segment.name, ": ", segment.text)),
                    "</title></rect>");
  }
  if (bar.range.has_value()) absl::StrAppend(&html, RangeMark(*bar.range, axis));
  if (group.limit.has_value() && *group.limit <= axis.max) {
    const double share = axis.ShareOf(*group.limit);
    absl::StrAppend(&html, VerticalLine("halo", share, "0", "100%"),
                    VerticalLine("limit", share, "0", "100%"));
  }
  return absl::StrCat(html, "</svg><span class=\"bar-value\">", Escape(bar.text),
                      "</span></div>\n");
}

}  // namespace

std::string BarChartHtml(const BarChart& chart) {
  std::string html =
      absl::StrCat("<figure class=\"bars\"><figcaption><b>", Escape(chart.name), "</b> ",
                   Escape(chart.caption), "</figcaption>\n", Legend(chart.legend));
  for (const BarGroup& group : chart.groups) {
    absl::StrAppend(&html, "<div class=\"bar-group\"><p class=\"group-label\"><b>",
                    Escape(group.label), "</b> ", Escape(group.note), "</p>\n");
    for (const Bar& bar : group.bars) absl::StrAppend(&html, BarRow(bar, group, chart.axis));
    absl::StrAppend(&html, "</div>\n");
  }
  absl::StrAppend(&html, "<div class=\"bar\"><span class=\"bar-label\"></span>",
                  TickRow(chart.axis), "<span class=\"bar-value\"></span></div></figure>\n");
  return html;
}

}  // namespace tessera
