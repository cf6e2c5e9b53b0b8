#include "tools/report/charts/timeline_chart.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

// The width of a row's viewBox, and the least width of a span in it, so that it can be seen.
constexpr double kWidth = 1000, kLeast = 1.4;
// If there are more spans, and most are too short to be seen, intervals of this width are drawn.
constexpr size_t kFewSpans = 40;
constexpr double kInterval = 3;

// Returns the fill of a kind of work; communication that is exposed has that of the step times.
int FillOfLane(LaneKind kind) {
  switch (kind) {
    case LaneKind::kForward:
      return 0;
    case LaneKind::kBackward:
      return 4;
    case LaneKind::kUpdate:
      return 2;
    case LaneKind::kRecomputation:
      return 3;
    case LaneKind::kHostCopies:
      return 6;
    case LaneKind::kCommunication:
      return 5;
    case LaneKind::kExposed:
      return 1;
  }
  return 0;
}

std::string NameOfLane(const StepLane& lane) {
  // Kinds that compute have one stream.
  const bool by_stream =
      lane.kind == LaneKind::kCommunication || lane.kind == LaneKind::kHostCopies;
  return by_stream ? absl::StrCat(lane.work, ", ", lane.stream) : lane.work;
}

// Returns the spans, or intervals if the spans would cover much more of the axis than they last.
std::vector<LaneSpan> DrawnSpans(const StepLane& lane, const Axis& axis) {
  const double covered = kLeast / kWidth * (axis.max - axis.min);
  double seconds = 0;
  for (const LaneSpan& span : lane.spans) seconds += span.end - span.begin;
  const auto count = static_cast<double>(lane.spans.size());
  if (lane.spans.size() <= kFewSpans || seconds >= covered * count) return lane.spans;
  return InIntervals(lane.spans, kInterval / kWidth * (axis.max - axis.min));
}

// Returns the outline of the spans: a share of the time is the same share of the height.
std::string PathOf(const std::vector<LaneSpan>& spans, const Axis& axis) {
  std::string path;
  for (const LaneSpan& span : spans) {
    const double x = kWidth * axis.ShareOf(span.begin);
    const double width = std::max(kWidth * axis.ShareOf(span.end) - x, kLeast);
    const double height = std::max(100 * span.share, 4.0);
    absl::StrAppend(&path, "M", Coordinate(x), " 100h", Coordinate(width), "v-", Coordinate(height),
                    "h-", Coordinate(width), "z");
  }
  return path;
}

std::string ShareText(double seconds, double step_seconds) {
  return absl::StrFormat("%.1f%%", step_seconds > 0 ? 100 * seconds / step_seconds : 0.0);
}

std::string LaneRow(const StepLane& lane, const StepView& view, const Axis& axis) {
  const std::string name = NameOfLane(lane);
  const std::string value = absl::StrCat(FormatSeconds(lane.seconds), " (",
                                         ShareText(lane.seconds, view.step_seconds), ")");
  const std::string fill = absl::StrCat("c", FillOfLane(lane.kind));
  return absl::StrCat("<div class=\"bar\"><span class=\"bar-label\">", Escape(name),
                      "</span><svg width=\"100%\" height=\"18\" role=\"img\" aria-label=\"",
                      Escape(absl::StrCat(name, ": ", value, " of the step")), "\">",
                      VerticalGrid(axis), "<svg width=\"100%\" height=\"18\" viewBox=\"0 0 ",
                      kWidth, " 100\" preserveAspectRatio=\"none\"><path class=\"", fill, "\" d=\"",
                      PathOf(DrawnSpans(lane, axis), axis), "\"><title>",
                      Escape(absl::StrCat(name, ": ", value)), "</title></path></svg></svg>",
                      "<span class=\"bar-value\">", Escape(value), "</span></div>\n");
}

DataTable LaneTable(const std::string& label, const StepView& view) {
  DataTable table = {absl::StrCat("Work of a step, ", label),
                     {"work", "stream", "instructions", "time", "share of the step"},
                     {}};
  for (const StepLane& lane : view.lanes) {
    table.rows.push_back({lane.work, lane.stream.empty() ? "-" : lane.stream,
                          lane.instructions == 0 ? "-" : absl::StrCat(lane.instructions),
                          FormatSeconds(lane.seconds), ShareText(lane.seconds, view.step_seconds)});
  }
  return table;
}

}  // namespace

std::string TimelineHtml(const std::string& label, const StepView& view, const Axis& axis) {
  std::string html = absl::StrCat("<figure class=\"timeline\"><figcaption><b>", Escape(label),
                                  "</b> ", FormatSeconds(view.step_seconds), " predicted, ",
                                  Counted(view.instructions, "instruction"), "</figcaption>\n");
  for (const StepLane& lane : view.lanes) absl::StrAppend(&html, LaneRow(lane, view, axis));
  return absl::StrCat(html, "<div class=\"bar\"><span class=\"bar-label\"></span>", TickRow(axis),
                      "<span class=\"bar-value\"></span></div>\n",
                      TableBehind(LaneTable(label, view)), "</figure>\n");
}

}  // namespace tessera
