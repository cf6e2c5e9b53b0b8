// Axes with round ticks.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_AXIS_H_
#define TESSERA_TOOLS_REPORT_CHARTS_AXIS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct Tick {
  double at = 0;
  std::string text;
};

// A range of values, from `min` to `max`, with at most eight ticks.
struct Axis {
  double min = 0;
  double max = 1;
  std::vector<Tick> ticks;

  // Returns the position of a value, in [0, 1] if it is in the range.
  double ShareOf(double value) const { return (value - min) / (max - min); }
};

// Return an axis from 0 to a round value that is at least `max`. Steps are 1, 2 or 5 times a power
// of ten, and powers of two of bytes.
Axis SecondsAxis(double max);
Axis BytesAxis(int64_t max);
// Returns an axis from 0 to exactly `max` seconds.
Axis ExactSecondsAxis(double max);
// Returns an axis of steps, from `first` to exactly `last`.
Axis StepsAxis(int64_t first, int64_t last);
// Returns an axis that has all values from `min` to `max`, and begins and ends at a tick.
Axis ValuesAxis(double min, double max);

// Returns horizontal lines of a chart, at the ticks of a vertical axis, or vertical ones at those
// of a horizontal axis: SVG, with positions in percent.
std::string HorizontalGrid(const Axis& vertical);
std::string VerticalGrid(const Axis& horizontal);
// Return an SVG element with the texts of the ticks: a row of the width of its column, and a column
// of the height `height`, in pixels.
std::string TickRow(const Axis& horizontal);
std::string TickColumn(const Axis& vertical, int height);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_AXIS_H_
