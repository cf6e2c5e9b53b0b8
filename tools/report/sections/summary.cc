#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/human_units.h"
#include "tools/report/charts/svg.h"
#include "tools/report/sections/sections.h"

namespace tessera {
namespace {

constexpr char kNothing[] = "-";

const char* OutcomeText(ReportedOutcome outcome) {
  switch (outcome) {
    case ReportedOutcome::kPlanned:
      return "planned";
    case ReportedOutcome::kRan:
      return "ran";
    case ReportedOutcome::kNotRun:
      return "not run";
    case ReportedOutcome::kDoesNotFit:
      return "does not fit";
    case ReportedOutcome::kFailed:
      return "failed";
    case ReportedOutcome::kDiffers:
      return "trains differently";
  }
  return "";
}

// Returns a predicted step time, and by how much it is off if the step was measured: "77 ms
// (+3.1%)".
std::string Predicted(const std::optional<StepCost>& cost,
                      const std::optional<MeasuredStep>& measured) {
  if (!cost.has_value() || !(cost->step_seconds() > 0)) return kNothing;
  std::string text = FormatSeconds(cost->step_seconds());
  if (measured.has_value() && measured->median_seconds > 0) {
    absl::StrAppendFormat(&text, " (%+.1f%%)",
                          100 * (cost->step_seconds() / measured->median_seconds - 1));
  }
  return text;
}

// Returns the units of all ranks in a second, measured or else predicted.
std::string UnitRate(const ReportedStrategy& strategy) {
  double seconds = 0;
  if (strategy.measured.has_value()) {
    seconds = strategy.measured->median_seconds;
  } else if (strategy.estimated.has_value()) {
    seconds = strategy.estimated->step_seconds();
  }
  if (strategy.units == 0 || !(seconds > 0)) return kNothing;
  return FormatCount(static_cast<double>(strategy.units) / seconds);
}

// A column of the table. It is left out if it has nothing for any strategy.
struct Column {
  const char* title;  // null: that of ReportData::rate
  std::string (*text_of)(const ReportedStrategy& strategy);
};

std::string BytesText(int64_t bytes) { return bytes > 0 ? FormatBytes(bytes) : kNothing; }

constexpr Column kColumns[] = {
    {"outcome",
     [](const ReportedStrategy& each) {
       return each.remark.empty() ? OutcomeText(each.outcome) : each.remark;
     }},
    {"ranks", [](const ReportedStrategy& each) { return absl::StrCat(each.ranks); }},
    {"predicted step",
     [](const ReportedStrategy& each) { return Predicted(each.estimated, each.measured); }},
    {"by the rounds' prices",
     [](const ReportedStrategy& each) { return Predicted(each.calibrated, each.measured); }},
    {"measured step",
     [](const ReportedStrategy& each) {
       return each.measured.has_value() ? FormatSeconds(each.measured->median_seconds)
                                        : std::string(kNothing);
     }},
    {nullptr, UnitRate},
    {"exposed",
     [](const ReportedStrategy& each) {
       const bool priced = each.estimated.has_value() && each.estimated->step_seconds() > 0;
       return priced ? FormatSeconds(each.estimated->exposed_seconds()) : std::string(kNothing);
     }},
    {"peak memory",
     [](const ReportedStrategy& each) {
       return BytesText(each.estimated.has_value() ? each.estimated->peak_bytes() : 0);
     }},
    {"limit", [](const ReportedStrategy& each) { return BytesText(each.memory_limit_bytes); }},
};

DataTable SummaryTable(const ReportData& data) {
  DataTable table = {"Times of a step, and bytes of a rank", {"strategy"}, {}};
  if (absl::c_any_of(data.strategies,
                     [](const ReportedStrategy& each) { return each.measured.has_value(); })) {
    table.caption += "; percentages are how far a prediction is off the measured step";
  }
  for (const ReportedStrategy& each : data.strategies) table.rows.push_back({each.label});
  for (const Column& column : kColumns) {
    std::vector<std::string> cells;
    for (const ReportedStrategy& each : data.strategies) cells.push_back(column.text_of(each));
    if (absl::c_all_of(cells, [](const std::string& cell) { return cell == kNothing; })) continue;
    table.columns.push_back(column.title != nullptr ? column.title : data.rate);
    for (size_t i = 0; i < cells.size(); ++i) table.rows[i].push_back(std::move(cells[i]));
  }
  return table;
}

std::string FaultsHtml(const ReportData& data) {
  std::string html;
  for (const ReportedStrategy& each : data.strategies) {
    if (each.fault.empty()) continue;
    absl::StrAppend(&html, "<p class=\"callout fault\"><b>", Escape(each.label), ": ",
                    OutcomeText(each.outcome), ".</b> ", Escape(each.fault), "</p>\n");
  }
  return html;
}

}  // namespace

Section SummarySection(const ReportData& data) {
  std::string html;
  if (!data.recommendation.empty()) {
    absl::StrAppend(&html, "<p class=\"callout\">", Escape(data.recommendation), "</p>\n");
  }
  absl::StrAppend(&html, TableHtml(SummaryTable(data)), FaultsHtml(data));
  for (const std::string& note : data.notes) {
    absl::StrAppend(&html, "<p class=\"dim\">Note: ", Escape(note), "</p>\n");
  }
  return {"summary", "Summary", html};
}

}  // namespace tessera
