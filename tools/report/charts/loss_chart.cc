#include "tools/report/charts/loss_chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/report/charts/axis.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

constexpr int kHeight = 260;        // pixels
constexpr int kLabelHeight = 18;    // of a line's label
constexpr size_t kMaxPoints = 400;  // of a curve
constexpr size_t kMaxRows = 60;     // of the table

struct Axes {
  Axis steps, losses;
};

// Returns the indices to draw, evenly over a curve, the last one included.
std::vector<size_t> Sampled(size_t count, size_t most) {
  std::vector<size_t> indices;
  if (count == 0) return indices;
  const size_t stride = (count + most - 1) / most;
  for (size_t i = 0; i < count; i += stride) indices.push_back(i);
  if (indices.back() + 1 != count) indices.push_back(count - 1);
  return indices;
}

// Returns the axes that all finite losses fit in; the axis of losses is empty if there are none.
Axes AxesOf(const std::vector<LossCurve>& curves) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  int64_t first = std::numeric_limits<int64_t>::max(), last = std::numeric_limits<int64_t>::min();
  for (const LossCurve& curve : curves) {
    for (size_t i = 0; i < curve.losses.size(); ++i) {
      if (!std::isfinite(curve.losses[i])) continue;
      least = std::min(least, curve.losses[i]);
      most = std::max(most, curve.losses[i]);
      first = std::min(first, curve.first_step + static_cast<int64_t>(i));
      last = std::max(last, curve.first_step + static_cast<int64_t>(i));
    }
  }
  if (first > last) return {};
  return {StepsAxis(first, last), ValuesAxis(least, most)};
}

std::string PathOf(const LossCurve& curve, const Axes& axes) {
  std::string path;
  bool joined = false;
  for (const size_t i : Sampled(curve.losses.size(), kMaxPoints)) {
    if (!std::isfinite(curve.losses[i])) {
      joined = false;
      continue;
    }
    const double step = static_cast<double>(curve.first_step + static_cast<int64_t>(i));
    absl::StrAppend(&path, joined ? "L" : "M", Coordinate(1000 * axes.steps.ShareOf(step)), " ",
                    Coordinate(1000 * (1 - axes.losses.ShareOf(curve.losses[i]))));
    joined = true;
  }
  return path;
}

double LastFinite(const LossCurve& curve) {
  for (size_t i = curve.losses.size(); i > 0; --i) {
    if (std::isfinite(curve.losses[i - 1])) return curve.losses[i - 1];
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// Returns the heights of the labels at the ends of the lines, in pixels from the top: as near to
// the ends as possible without overlap, each at least 0.
std::vector<double> LabelHeights(const std::vector<LossCurve>& curves, const Axis& losses) {
  std::vector<double> heights;
  for (const LossCurve& curve : curves) {
    heights.push_back(kHeight * (1 - losses.ShareOf(LastFinite(curve))));
  }
  std::vector<size_t> order(curves.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return heights[a] < heights[b]; });
  double below = kLabelHeight * static_cast<double>(curves.size() - 1);  // room for later labels
  double least = 0;
  for (const size_t i : order) {
    heights[i] = std::max(least, std::min(heights[i], kHeight - below));
    least = heights[i] + kLabelHeight;
    below -= kLabelHeight;
  }
  return heights;
}

std::string Labels(const std::vector<LossCurve>& curves, const Axis& losses) {
  const std::vector<double> heights = LabelHeights(curves, losses);
  std::string html = "<div class=\"line-labels\" aria-hidden=\"true\">";
  for (size_t i = 0; i < curves.size(); ++i) {
    absl::StrAppend(&html, "<span style=\"top:", Coordinate(heights[i]), "px\">",
                    "<svg width=\"34\" height=\"10\"><line y1=\"5\" y2=\"5\" x2=\"34\" ",
                    LineStyle(static_cast<int>(i)), "/></svg> ", Escape(curves[i].label),
                    "</span>");
  }
  return html + "</div>";
}

std::string LossText(const LossCurve& curve, int64_t step) {
  const int64_t i = step - curve.first_step;
  if (i < 0 || i >= static_cast<int64_t>(curve.losses.size())) return "-";
  return absl::StrFormat("%.6f", curve.losses[static_cast<size_t>(i)]);
}

DataTable LossTable(const std::vector<LossCurve>& curves, const Axis& steps) {
  DataTable table = {"Losses by step", {"step"}, {}};
  for (const LossCurve& curve : curves) table.columns.push_back(curve.label);
  const auto count = static_cast<size_t>(steps.max - steps.min) + 1;
  for (const size_t i : Sampled(count, kMaxRows)) {
    const int64_t step = static_cast<int64_t>(steps.min) + static_cast<int64_t>(i);
    std::vector<std::string> row = {absl::StrCat(step)};
    for (const LossCurve& curve : curves) row.push_back(LossText(curve, step));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Returns how far the losses of the curves are from those of the first one, at most.
std::string DifferenceText(const std::vector<LossCurve>& curves) {
  double most = 0;
  for (const LossCurve& curve : curves) {
    const int64_t shift = curve.first_step - curves[0].first_step;
    for (int64_t i = 0; i < static_cast<int64_t>(curve.losses.size()); ++i) {
      if (i + shift < 0 || i + shift >= static_cast<int64_t>(curves[0].losses.size())) continue;
      const double difference = std::fabs(curve.losses[static_cast<size_t>(i)] -
                                          curves[0].losses[static_cast<size_t>(i + shift)]);
      if (std::isfinite(difference)) most = std::max(most, difference);
    }
  }
  return curves.size() < 2 ? ""
                           : absl::StrFormat(
                                 "The largest difference of a loss from that of %s is "
                                 "%.2g.",
                                 curves[0].label, most);
}

}  // namespace

std::string LossChartHtml(const std::vector<LossCurve>& all) {
  std::vector<LossCurve> curves;
  for (const LossCurve& curve : all) {
    if (std::isfinite(LastFinite(curve))) curves.push_back(curve);
  }
  if (curves.empty()) return "";
  const Axes axes = AxesOf(curves);
  std::string lines;
  for (size_t i = 0; i < curves.size(); ++i) {
    absl::StrAppend(&lines, "<path vector-effect=\"non-scaling-stroke\" ",
                    LineStyle(static_cast<int>(i)), " d=\"", PathOf(curves[i], axes), "\"><title>",
                    Escape(curves[i].label), "</title></path>");
  }
  return absl::StrCat(
      "<figure class=\"plot\"><figcaption><b>Loss by step</b> Lines of equal losses lie on each "
      "other; later strategies have thinner lines. ",
      Escape(DifferenceText(curves)), "</figcaption><div class=\"plot-grid with-labels\">",
      TickColumn(axes.losses, kHeight), "<svg class=\"area\" width=\"100%\" height=\"", kHeight,
      "\" role=\"img\" aria-label=\"Loss by step\">", HorizontalGrid(axes.losses),
      "<svg class=\"lines\" width=\"100%\" height=\"100%\" viewBox=\"0 0 1000 1000\" "
      "preserveAspectRatio=\"none\">",
      lines, "</svg></svg>", Labels(curves, axes.losses), "<span></span>", TickRow(axes.steps),
      "<span class=\"last\"></span></div>\n", TableBehind(LossTable(curves, axes.steps)),
      "</figure>\n");
}

}  // namespace tessera
