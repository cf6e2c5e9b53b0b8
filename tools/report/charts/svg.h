// Text, numbers and fills of charts, which are HTML with inline SVG.
//
// A chart has no script and no fixed width: horizontal positions are percentages, or those of a
// nested viewBox that is stretched, and texts have the size that CSS says. So a chart is as wide as
// its column, on a phone too.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_CHARTS_SVG_H_
#define TESSERA_TOOLS_REPORT_CHARTS_SVG_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera {

// Returns text for HTML and XML, and for attribute values in double quotes. Control characters
// become U+FFFD.
std::string Escape(absl::string_view text);

// Returns a number with at most two digits after the point, and none that say nothing: "12.5".
std::string Coordinate(double value);
// Returns "12.5%" for a share of 0.125; shares are clamped to [0, 1].
std::string Percent(double share);

// The fills that charts share: a colour and a texture each, so that they differ without colour.
inline constexpr int kFills = 9;
// An outline without a colour: what is planned and unused.
inline constexpr int kNoFill = kFills - 1;

// Returns a hidden element with the textures, which a page has once, before its first chart.
std::string FillDefinitions();
// Returns the value of the attribute `fill` for fill i, 0 <= i < kFills.
std::string FillOf(int i);
// Returns a small square of the fill.
std::string Swatch(int fill);

struct LegendEntry {
  int fill = 0;
  std::string text;
};
// Returns a list of swatches with their texts.
std::string Legend(const std::vector<LegendEntry>& entries);

// Lines that differ without colour: each number has a colour, a dash and a width.
inline constexpr int kLineStyles = 8;
// Returns the attributes of line i; those of i and i + kLineStyles are equal.
std::string LineStyle(int i);

// A table that says in numbers what a chart shows. The first column names the rows.
struct DataTable {
  std::string caption;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
// Returns the table, in a box that scrolls by itself.
std::string TableHtml(const DataTable& table);
// Returns the table behind a line that opens it.
std::string TableBehind(const DataTable& table);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_CHARTS_SVG_H_
