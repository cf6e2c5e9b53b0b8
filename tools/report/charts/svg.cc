#include "tools/report/charts/svg.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// The lines of each texture, in a square of 8 pixels over the fill's colour. The first fill
// has none.
constexpr const char* kTextures[kFills] = {
    "",
    "<path class='ink' d='M-2 2l4-4M0 8l8-8M6 10l4-4'/>",
    "<path class='ink' d='M-2 6l4 4M0 0l8 8M6-2l4 4'/>",
    "<circle class='dot' cx='2' cy='2' r='1.3'/><circle class='dot' cx='6' cy='6' r='1.3'/>",
    "<path class='ink' d='M0 2h8M0 6h8'/>",
    "<path class='ink' d='M2 0v8M6 0v8'/>",
    "<path class='ink' d='M0 0l8 8M8 0l-8 8'/>",
    "<path class='ink' d='M4 0v8M0 4h8'/>",
    "<path class='outline' d='M0 8l8-8'/>"};

struct Line {
  const char* dash;  // "": solid
  const char* width;
};

// Lines of equal losses lie on each other: the later ones are thinner, so that all are seen.
constexpr Line kLines[kLineStyles] = {{"", "7"},         {"14 7", "5"},     {"4 5", "4"},
                                      {"16 5 3 5", "3"}, {"9 9", "2.5"},    {"2 6", "2.5"},
                                      {"20 4", "1.5"},   {"3 3 9 3", "1.5"}};

// Returns whether the cells of a column are words, which begin at its left side; numbers end at its
// right side.
bool HasWords(const DataTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [column](const auto& row) {
    return column < row.size() && !row[column].empty() && absl::ascii_isalpha(row[column][0]);
  });
}

}  // namespace

std::string Escape(absl::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\n' && c != '\t') {
          escaped += "\xEF\xBF\xBD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

std::string Coordinate(double value) {
  std::string text = absl::StrFormat("%.2f", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string Percent(double share) {
  return absl::StrCat(Coordinate(100 * std::clamp(share, 0.0, 1.0)), "%");
}

std::string FillDefinitions() {
  std::string html =
      "<svg class=\"definitions\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>";
  for (int i = 0; i < kFills; ++i) {
    absl::StrAppend(&html, "<pattern id=\"fill", i,
                    "\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect class=\"c",
                    i, "\" width=\"8\" height=\"8\"/>", kTextures[i], "</pattern>");
  }
  return html + "</defs></svg>\n";
}

std::string FillOf(int i) { return absl::StrCat("url(#fill", i, ")"); }

std::string Swatch(int fill) {
  return absl::StrCat(
      "<svg class=\"swatch\" width=\"16\" height=\"16\" aria-hidden=\"true\"><rect class=\"shape\" "
      "x=\".5\" y=\".5\" width=\"15\" height=\"15\" fill=\"",
      FillOf(fill), "\"/></svg>");
}

std::string Legend(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    absl::StrAppend(&html, "<li>", Swatch(entry.fill), " ", Escape(entry.text), "</li>");
  }
  return html + "</ul>\n";
}

std::string LineStyle(int i) {
  const Line& line = kLines[i % kLineStyles];
  return absl::StrCat(
      "class=\"line l", i % kLineStyles, "\" stroke-width=\"", line.width, "\"",
      *line.dash == '\0' ? "" : absl::StrCat(" stroke-dasharray=\"", line.dash, "\""));
}

std::string TableHtml(const DataTable& table) {
  // A caption of the table itself would scroll away with it.
  std::string html =
      absl::StrCat("<p class=\"caption\">", Escape(table.caption),
                   "</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
                   Escape(table.caption), "\"><table><thead><tr>");
  std::vector<const char*> styles;  // of columns
  for (size_t i = 0; i < table.columns.size(); ++i) {
    styles.push_back(HasWords(table, i) ? " class=\"words\"" : "");
    absl::StrAppend(&html, "<th scope=\"col\"", styles[i], ">", Escape(table.columns[i]), "</th>");
  }
  absl::StrAppend(&html, "</tr></thead><tbody>\n");
  for (const std::vector<std::string>& row : table.rows) {
    absl::StrAppend(&html, "<tr>");
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&html, i == 0 ? "<th scope=\"row\"" : "<td", styles[i], ">", Escape(row[i]),
                      i == 0 ? "</th>" : "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  return html + "</tbody></table></div>\n";
}

std::string TableBehind(const DataTable& table) {
  return absl::StrCat("<details class=\"data\"><summary>", Escape(table.caption),
                      ", as a table</summary>", TableHtml(table), "</details>\n");
}

}  // namespace tessera
