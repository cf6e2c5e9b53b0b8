#include <algorithm>
#include <string>
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

std::string Predicted(const ReportedStrategy& strategy) {
  const bool priced = strategy.estimated.has_value() && strategy.estimated->step_seconds() > 0;
  return priced ? FormatSeconds(strategy.estimated->step_seconds()) : kNothing;
}

// Returns by how much the prediction by the latest prices is off: "+3.1%".
std::string ErrorText(const ReportedStrategy& strategy) {
  const std::optional<StepCost>& cost =
      strategy.calibrated.has_value() ? strategy.calibrated : strategy.estimated;
  if (!strategy.measured.has_value() || !cost.has_value() || !(cost->step_seconds() > 0)) {
    return kNothing;
  }
  return absl::StrFormat("%+.1f%%",
                         100 * (cost->step_seconds() / strategy.measured->median_seconds - 1));
}

// Returns the tokens of all ranks in a second, measured or else predicted.
std::string TokenRate(const ReportedStrategy& strategy) {
  double seconds = 0;
  if (strategy.measured.has_value()) {
    seconds = strategy.measured->median_seconds;
  } else if (strategy.estimated.has_value()) {
    seconds = strategy.estimated->step_seconds();
  }
  if (strategy.tokens == 0 || !(seconds > 0)) return kNothing;
  return FormatCount(static_cast<double>(strategy.tokens) / seconds);
}

std::string PeakText(const ReportedStrategy& strategy) {
  const bool planned = strategy.estimated.has_value() && strategy.estimated->peak_bytes() > 0;
  return planned ? FormatBytes(strategy.estimated->peak_bytes()) : kNothing;
}

bool AnyMeasured(const ReportData& data) {
  return absl::c_any_of(data.strategies,
                        [](const ReportedStrategy& each) { return each.measured.has_value(); });
}

DataTable SummaryTable(const ReportData& data) {
  const bool measured = AnyMeasured(data);
  const bool limited = absl::c_any_of(
      data.strategies, [](const ReportedStrategy& each) { return each.memory_limit_bytes > 0; });
  DataTable table = {"All strategies; times and bytes are those of a step and a rank",
                     {"strategy", "outcome", "ranks", "predicted step"},
                     {}};
  if (measured) table.columns.insert(table.columns.end(), {"measured step", "error of prediction"});
  table.columns.insert(table.columns.end(), {"tokens/s", "exposed", "peak memory"});
  if (limited) table.columns.push_back("limit");
  for (const ReportedStrategy& each : data.strategies) {
    std::vector<std::string> row = {each.label,
                                    each.remark.empty() ? OutcomeText(each.outcome) : each.remark,
                                    absl::StrCat(each.ranks), Predicted(each)};
    if (measured) {
      row.push_back(each.measured.has_value() ? FormatSeconds(each.measured->median_seconds)
                                              : kNothing);
      row.push_back(ErrorText(each));
    }
    row.push_back(TokenRate(each));
    row.push_back(each.estimated.has_value() && each.estimated->step_seconds() > 0
                      ? FormatSeconds(each.estimated->exposed_seconds())
                      : kNothing);
    row.push_back(PeakText(each));
    if (limited) {
      row.push_back(each.memory_limit_bytes > 0 ? FormatBytes(each.memory_limit_bytes) : kNothing);
    }
    table.rows.push_back(std::move(row));
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
