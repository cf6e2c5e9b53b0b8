#include "tools/report/charts/memory_chart.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/human_units.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

constexpr int kHeight = 190;  // pixels

// The height of the stack below each category, and above the last one.
using Heights = std::array<int64_t, std::size(kAllCategories) + 1>;
// At each point.
using Stack = std::vector<Heights>;

Stack StackOf(const LiveMemory& memory) {
  Stack stack;
  for (const LivePoint& point : memory.points) {
    Heights heights{};
    for (size_t c = 0; c < point.bytes.size(); ++c) heights[c + 1] = heights[c] + point.bytes[c];
    stack.push_back(heights);
  }
  return stack;
}

// Appends the steps of a height to a path, in the unit square; forward or backward in time. The
// path is at the first (or last) point's height already.
void AppendSteps(const LiveMemory& memory, const Stack& stack, size_t level, bool backward,
                 const Axis& seconds, const Axis& bytes, std::string* path) {
  const auto x = [&](size_t i) {
    return Coordinate(1000 * std::min(seconds.ShareOf(memory.points[i].seconds), 1.0));
  };
  const auto y = [&](size_t i) {
    return Coordinate(1000 * (1 - bytes.ShareOf(static_cast<double>(stack[i][level]))));
  };
  const size_t count = stack.size();
  for (size_t step = 1; step < count; ++step) {
    // A height holds from its point until the next one.
    if (backward) {
      const size_t i = count - 1 - step;
      if (stack[i][level] != stack[i + 1][level]) absl::StrAppend(path, "H", x(i + 1), "V", y(i));
    } else if (stack[step][level] != stack[step - 1][level]) {
      absl::StrAppend(path, "H", x(step), "V", y(step));
    }
  }
  absl::StrAppend(path, "H", x(backward ? 0 : count - 1));
}

// Returns the outline of the area of a category, in a square of 1000.
std::string AreaOf(const LiveMemory& memory, const Stack& stack, size_t category,
                   const Axis& seconds, const Axis& bytes) {
  const auto y = [&](size_t i, size_t level) {
    return Coordinate(1000 * (1 - bytes.ShareOf(static_cast<double>(stack[i][level]))));
  };
  std::string path = absl::StrCat("M0 ", y(0, category + 1));
  AppendSteps(memory, stack, category + 1, false, seconds, bytes, &path);
  absl::StrAppend(&path, "V", y(stack.size() - 1, category));
  AppendSteps(memory, stack, category, true, seconds, bytes, &path);
  return path + "Z";
}

std::vector<size_t> UsedCategories(const LiveMemory& memory) {
  std::vector<size_t> used;
  for (size_t c = 0; c < memory.points[0].bytes.size(); ++c) {
    if (std::any_of(memory.points.begin(), memory.points.end(),
                    [c](const LivePoint& point) { return point.bytes[c] > 0; })) {
      used.push_back(c);
    }
  }
  return used;
}

std::string NameOfCategory(size_t category) {
  const absl::string_view name = CategoryName(kAllCategories[category]);
  return std::string(name.data(), name.size());
}

// Returns the areas. Each is a clip of a rectangle as large as the chart, so that its texture is
// not stretched; its outline is.
std::string Areas(const std::string& id, const LiveMemory& memory, const Axis& seconds,
                  const Axis& bytes) {
  const Stack stack = StackOf(memory);
  std::string clips, areas, outlines;
  for (const size_t category : UsedCategories(memory)) {
    const std::string area = AreaOf(memory, stack, category, seconds, bytes);
    const std::string clip = absl::StrCat("clip-", id, "-", category);
    absl::StrAppend(&clips, "<clipPath id=\"", clip,
                    "\" clipPathUnits=\"objectBoundingBox\"><path transform=\"scale(.001)\" d=\"",
                    area, "\"/></clipPath>");
    absl::StrAppend(&areas, "<rect width=\"100%\" height=\"100%\" fill=\"",
                    FillOf(static_cast<int>(category)), "\" clip-path=\"url(#", clip, ")\"><title>",
                    NameOfCategory(category), "</title></rect>");
    absl::StrAppend(&outlines, "<path class=\"outline\" vector-effect=\"non-scaling-stroke\" d=\"",
                    area, "\"/>");
  }
  return absl::StrCat("<defs>", clips, "</defs>", areas,
                      "<svg width=\"100%\" height=\"100%\" viewBox=\"0 0 1000 1000\" "
                      "preserveAspectRatio=\"none\">",
                      outlines, "</svg>");
}

std::string PeakMark(const LiveMemory& memory, const Axis& seconds, const Axis& bytes) {
  const LivePoint& peak = memory.peak_point();
  const double x = std::min(seconds.ShareOf(peak.seconds), 1.0);
  const std::string y = Percent(1 - bytes.ShareOf(static_cast<double>(peak.total())));
  const char* const anchor = x < 0.2 ? "start" : x > 0.8 ? "end" : "middle";
  return absl::StrCat("<circle class=\"peak\" r=\"4\" cx=\"", Percent(x), "\" cy=\"", y,
                      "\"/><text class=\"peak-text\" x=\"", Percent(x), "\" y=\"", y,
                      "\" dy=\"-9\" text-anchor=\"", anchor, "\">peak ", FormatBytes(peak.total()),
                      "</text>");
}

DataTable PeakTable(const std::string& label, const LiveMemory& memory) {
  const LivePoint& peak = memory.peak_point();
  DataTable table = {absl::StrCat("Live memory, ", label),
                     {"category", "at the peak", "bytes", "before the step", "most at any time"},
                     {}};
  for (const size_t c : UsedCategories(memory)) {
    int64_t most = 0;
    for (const LivePoint& point : memory.points) most = std::max(most, point.bytes[c]);
    table.rows.push_back({NameOfCategory(c), FormatBytes(peak.bytes[c]),
                          absl::StrCat(peak.bytes[c]), FormatBytes(memory.points[0].bytes[c]),
                          FormatBytes(most)});
  }
  table.rows.push_back({"all", FormatBytes(peak.total()), absl::StrCat(peak.total()),
                        FormatBytes(memory.points[0].total()), FormatBytes(peak.total())});
  return table;
}

}  // namespace

std::string MemoryChartHtml(const std::string& id, const std::string& label,
                            const LiveMemory& memory, const Axis& seconds, const Axis& bytes) {
  const LivePoint& peak = memory.peak_point();
  std::string words = absl::StrCat(label, ": peak ", FormatBytes(peak.total()), " at ",
                                   FormatSeconds(peak.seconds));
  const std::string side = memory.side == MemorySide::kHost ? "offloaded to the host, " : "";
  return absl::StrCat("<figure class=\"plot\"><figcaption><b>", Escape(label), "</b> ", side,
                      "peak ", FormatBytes(peak.total()), " at ", FormatSeconds(peak.seconds),
                      " of the step</figcaption>", "<div class=\"plot-grid\">",
                      TickColumn(bytes, kHeight), "<svg class=\"area\" width=\"100%\" height=\"",
                      kHeight, "\" role=\"img\" aria-label=\"", Escape(words), "\">",
                      HorizontalGrid(bytes), Areas(id, memory, seconds, bytes),
                      PeakMark(memory, seconds, bytes), "</svg><span></span>", TickRow(seconds),
                      "</div>\n", TableBehind(PeakTable(label, memory)), "</figure>\n");
}

}  // namespace tessera
