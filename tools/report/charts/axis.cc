#include "tools/report/charts/axis.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "core/text/human_units.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

constexpr int kIntervals = 6;  // at most, or so

using TextOf = std::function<std::string(double)>;

// Returns 1, 2 or 5 times a power of ten: the smallest such step of which `kIntervals` reach
// `range`.
double RoundStep(double range) {
  const double least = range / kIntervals;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// Adds the multiples of `step` in the axis.
void AddTicks(double step, const TextOf& text_of, Axis* axis) {
  const auto first = static_cast<int64_t>(std::ceil(axis->min / step - 1e-6));
  const auto last = static_cast<int64_t>(std::floor(axis->max / step + 1e-6));
  for (int64_t i = first; i <= last; ++i) {
    const double at = static_cast<double>(i) * step;
    axis->ticks.push_back({at, text_of(at)});
  }
}

// Removes what a round number does not need: "20.0 ms" becomes "20 ms".
std::string Rounded(std::string text) {
  const size_t point = text.find('.');
  if (point == std::string::npos) return text;
  const size_t end = std::min(text.find_first_not_of("0123456789", point + 1), text.size());
  size_t keep = end;
  while (text[keep - 1] == '0') --keep;
  if (keep - 1 == point) keep = point;
  return text.erase(keep, end - keep);
}

std::string SecondsText(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 0.9995e-3) return Rounded(absl::StrFormat("%.3f us", 1e6 * seconds));
  return Rounded(FormatSeconds(seconds));
}

std::string BytesText(double bytes) {
  return bytes == 0 ? "0" : Rounded(FormatBytes(std::llround(bytes)));
}

const char* AnchorOf(double share) {
  return share < 0.02 ? "start" : share > 0.98 ? "end" : "middle";
}

}  // namespace

Axis SecondsAxis(double max) {
  const double step = RoundStep(max > 0 ? max : 1);
  Axis axis = {0, step * std::ceil((max > 0 ? max : 1) / step - 1e-9), {}};
  AddTicks(step, SecondsText, &axis);
  return axis;
}

Axis ExactSecondsAxis(double max) {
  Axis axis = {0, max > 0 ? max : 1, {}};
  AddTicks(RoundStep(axis.max), SecondsText, &axis);
  return axis;
}

Axis BytesAxis(int64_t max) {
  double step = 1;
  while (step * kIntervals < static_cast<double>(max)) step *= 2;
  Axis axis = {0, std::max(step * std::ceil(static_cast<double>(max) / step), step), {}};
  AddTicks(step, BytesText, &axis);
  return axis;
}

Axis StepsAxis(int64_t first, int64_t last) {
  Axis axis = {static_cast<double>(first), static_cast<double>(std::max(last, first + 1)), {}};
  AddTicks(
      std::max(1.0, RoundStep(axis.max - axis.min)),
      [](double at) { return absl::StrCat(std::llround(at)); }, &axis);
  return axis;
}

Axis ValuesAxis(double min, double max) {
  if (!(max > min)) {
    const double margin = std::max(std::fabs(max) * 0.01, 1e-6);
    min -= margin;
    max += margin;
  }
  const double step = RoundStep(max - min);
  Axis axis = {step * std::floor(min / step + 1e-9), step * std::ceil(max / step - 1e-9), {}};
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  AddTicks(
      step, [digits](double at) { return absl::StrFormat("%.*f", digits, at); }, &axis);
  return axis;
}

std::string HorizontalGrid(const Axis& vertical) {
  std::string svg;
  for (const Tick& tick : vertical.ticks) {
    const std::string y = Percent(1 - vertical.ShareOf(tick.at));
    absl::StrAppend(&svg, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"", y, "\" y2=\"", y,
                    "\"/>");
  }
  return svg;
}

std::string VerticalGrid(const Axis& horizontal) {
  std::string svg;
  for (const Tick& tick : horizontal.ticks) {
    const std::string x = Percent(horizontal.ShareOf(tick.at));
    absl::StrAppend(&svg, "<line class=\"grid\" y1=\"0\" y2=\"100%\" x1=\"", x, "\" x2=\"", x,
                    "\"/>");
  }
  return svg;
}

std::string TickRow(const Axis& horizontal) {
  std::string svg = "<svg class=\"ticks\" width=\"100%\" height=\"22\" aria-hidden=\"true\">";
  for (size_t i = 0; i < horizontal.ticks.size(); ++i) {
    const Tick& tick = horizontal.ticks[i];
    const double share = horizontal.ShareOf(tick.at);
    // A narrow page shows every second text only.
    const bool minor = horizontal.ticks.size() > 4 && i % 2 == 1;
    absl::StrAppend(&svg, "<line class=\"tick\" y1=\"0\" y2=\"5\" x1=\"", Percent(share),
                    "\" x2=\"", Percent(share), "\"/><text", minor ? " class=\"minor\"" : "",
                    " x=\"", Percent(share), "\" y=\"18\" text-anchor=\"", AnchorOf(share), "\">",
                    Escape(tick.text), "</text>");
  }
  return svg + "</svg>";
}

std::string TickColumn(const Axis& vertical, int height) {
  std::string svg = absl::StrCat("<svg class=\"ticks\" width=\"100%\" height=\"", height,
                                 "\" aria-hidden=\"true\">");
  for (const Tick& tick : vertical.ticks) {
    const double y = (1 - vertical.ShareOf(tick.at)) * height;
    absl::StrAppend(&svg, "<text x=\"100%\" dx=\"-6\" y=\"", Coordinate(y),
                    "\" dy=\".32em\" text-anchor=\"end\">", Escape(tick.text), "</text>");
  }
  return svg + "</svg>";
}

}  // namespace tessera
