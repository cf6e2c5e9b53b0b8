#include "tools/report/charts/plan_map.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

// More cells or operators of a unit are only counted, so that the page stays small.
constexpr size_t kMaxCells = 80, kMaxOperators = 60;
// Once a map, or the tables of its signatures, has so many bytes, its other units are only counted.
constexpr size_t kMaxMapBytes = 150'000, kMaxTableBytes = 40'000;
// Units with at most so many cells share a line of the page.
constexpr size_t kFewCells = 3;

struct StorageStyle {
  Storage storage;
  const char* style;  // a class of CSS
  const char* mark;
  const char* meaning;
};

constexpr StorageStyle kStyles[] = {
    {Storage::kFull, "full", "B", "on every rank"},
    {Storage::kSplitOptimizer, "split-optimizer", "B+", "on every rank, optimizer state split"},
    {Storage::kSplit, "split", "S", "split along a dimension"},
    {Storage::kFlat, "flat", "F", "split as a part of a flat group"},
    {Storage::kMixed, "mixed", "M", "slices that are stored differently"},
};

const StorageStyle& StyleOf(Storage storage) { return kStyles[static_cast<size_t>(storage)]; }

std::string Mark(const StorageStyle& style) {
  return absl::StrCat("<i class=\"mark\">", style.mark, "</i>");
}

std::string CellHtml(const ParameterCell& cell) {
  const StorageStyle& style = StyleOf(cell.storage);
  return absl::StrCat(
      "<li class=\"cell ", style.style, "\">", Mark(style), "<b>", Escape(cell.name), "</b><span>",
      Escape(cell.layout), "</span><span>", Escape(cell.shape), ", ",
      absl::StrReplaceAll(FormatBytes(cell.bytes), {{" ", "&nbsp;"}}),
      cell.slices > 1 ? absl::StrCat(", ", Counted(cell.slices, "slice")) : "", "</span></li>");
}

std::string Chip(const char* style, const std::string& text) {
  return absl::StrCat("<span class=\"chip ", style, "\">", Escape(text), "</span>");
}

std::string RowHtml(const PlanRow& row) {
  std::string html = absl::StrCat("<li class=\"unit", row.cells.size() > kFewCells ? " wide" : "",
                                  "\"><p><b>", Escape(row.label), "</b> ");
  if (row.units > 1) absl::StrAppend(&html, Chip("count", absl::StrCat(row.units, " equal units")));
  if (row.recomputed == Recomputed::kAll) {
    absl::StrAppend(&html, Chip("recomputed", "activations recomputed"));
  } else if (row.recomputed == Recomputed::kSome) {
    absl::StrAppend(&html, Chip("recomputed", "some activations recomputed"));
  }
  if (!row.cells.empty()) {
    absl::StrAppend(&html, "<span class=\"size\">", FormatBytes(row.bytes()),
                    row.units > 1 ? " each" : "", "</span>");
  }
  absl::StrAppend(&html, "</p>");
  for (const std::string& group : row.groups) {
    absl::StrAppend(&html, "<p class=\"group\">", Escape(group), "</p>");
  }
  if (!row.cells.empty()) absl::StrAppend(&html, "<ul class=\"cells\">");
  for (size_t i = 0; i < std::min(row.cells.size(), kMaxCells); ++i) {
    absl::StrAppend(&html, CellHtml(row.cells[i]));
  }
  if (row.cells.size() > kMaxCells) {
    absl::StrAppend(&html, "<li class=\"cell\">and ", row.cells.size() - kMaxCells, " more</li>");
  }
  return absl::StrCat(html, row.cells.empty() ? "" : "</ul>", "</li>\n");
}

DataTable OperatorTable(const PlanRow& row) {
  DataTable table = {absl::StrCat("Signatures of ", row.label), {"operator", "signature"}, {}};
  for (size_t i = 0; i < std::min(row.operators.size(), kMaxOperators); ++i) {
    table.rows.push_back({row.operators[i].first, row.operators[i].second});
  }
  if (row.operators.size() > kMaxOperators) {
    table.rows.push_back({absl::StrCat("and ", row.operators.size() - kMaxOperators, " more"), ""});
  }
  return table;
}

std::string SettingsText(const PlanRows& plan) {
  std::vector<std::string> settings;
  settings.push_back(plan.mesh.empty() ? "one rank" : absl::StrCat("mesh ", plan.mesh));
  settings.push_back(Counted(plan.micro_batches, "micro-batch", "es"));
  if (!plan.logits.empty()) settings.push_back(absl::StrCat("logits ", plan.logits));
  if (!plan.precision.empty()) settings.push_back(plan.precision);
  settings.push_back(plan.recompute.empty()
                         ? "no recomputation"
                         : absl::StrCat("recomputes ", absl::StrJoin(plan.recompute, ", ")));
  if (!plan.passes.empty()) {
    settings.push_back(absl::StrCat("passes ", absl::StrJoin(plan.passes, ", ")));
  }
  return absl::StrJoin(settings, "; ");
}

// Returns a line that counts the units that a list leaves out.
std::string LeftOut(int64_t units) {
  return units == 0 ? ""
                    : absl::StrCat("<p class=\"dim\">and ", Counted(units, "more unit"), "</p>\n");
}

std::string OperatorsHtml(const PlanRows& plan) {
  std::string tables;
  int64_t left_out = 0;
  for (const PlanRow& row : plan.rows) {
    if (row.operators.empty()) continue;
    if (tables.size() > kMaxTableBytes) {
      left_out += row.units;
    } else {
      tables += TableHtml(OperatorTable(row));
    }
  }
  if (tables.empty()) return "";
  return absl::StrCat("<details class=\"data\"><summary>Signatures of the forward pass</summary>",
                      tables, LeftOut(left_out), "</details>\n");
}

}  // namespace

std::string PlanSettingsHtml(const PlanRows& plan) {
  return absl::StrCat("<p class=\"settings\">", Escape(SettingsText(plan)), "</p>\n");
}

std::string PlanMapHtml(const std::string& label, const PlanRows& plan) {
  std::string html = absl::StrCat("<ul class=\"map\" aria-label=\"",
                                  Escape(absl::StrCat("Plan of ", label, " by layer")), "\">\n");
  int64_t left_out = 0;
  for (const PlanRow& row : plan.rows) {
    if (row.cells.empty() && row.recomputed == Recomputed::kNothing) continue;
    if (html.size() > kMaxMapBytes) {
      left_out += row.units;
    } else {
      absl::StrAppend(&html, RowHtml(row));
    }
  }
  return absl::StrCat(html, "</ul>\n", LeftOut(left_out), OperatorsHtml(plan));
}

std::string PlanMapLegend() {
  std::string html = "<ul class=\"legend\">";
  for (const StorageStyle& style : kStyles) {
    absl::StrAppend(&html, "<li><span class=\"cell sample ", style.style, "\">", Mark(style),
                    "</span> ", style.meaning, "</li>");
  }
  return html + "</ul>\n";
}

}  // namespace tessera
