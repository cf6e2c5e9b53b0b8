#include "tools/compare/results.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/posix/output_file.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/text_stream.h"
#include "tools/compare/comparison_json.h"
#include "tools/compare/comparison_report.h"
#include "tools/compare/comparison_table.h"
#include "tools/figures/strategy_table.h"
#include "tools/report/report.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {
namespace {

// Exit codes of a comparison that has faults.
constexpr int kSomeDidNotRun = 2;
constexpr int kTrainingDiffers = 3;

absl::Status NamingFlag(const char* flag, const absl::Status& status) {
  return WithMessage(status, absl::StrCat(flag, ": ", status.message()));
}

// Returns the table of the comparison; "" if nothing has figures.
std::string TableOf(const Comparison& comparison) {
  if (comparison.predicted_only) {
    return comparison.model.empty() ? "" : ComparisonTable(comparison);
  }
  if (comparison.rounds == 0) return "";
  const bool priced =
      std::any_of(comparison.strategies.begin(), comparison.strategies.end(),
                  [](const StrategyResult& each) { return each.outcome == Outcome::kPriced; });
  return priced ? PredictionTable(comparison) : ComparisonTable(comparison);
}

}  // namespace

std::string Title(const Comparison& comparison) {
  if (comparison.predicted_only) {
    return absl::StrCat(comparison.model, "; ", comparison.ranks, "; ", comparison.cluster);
  }
  return absl::StrCat(comparison.model, comparison.ranks.empty() ? "" : "; ", comparison.ranks,
                      "; ", comparison.processor, ", ", Counted(comparison.threads, "thread"),
                      comparison.ranks.empty() ? "" : " each");
}

absl::Status CheckResultFiles(const CompareCommandLine& line) {
  if (!line.json.empty()) {
    RETURN_IF_ERROR(NamingFlag("--json", CheckOutputFile(UserPath(line.json))));
  }
  if (line.report.empty()) return absl::OkStatus();
  return NamingFlag("--report", CheckOutputFile(UserPath(line.report)));
}

void PrintResults(const Comparison& comparison) {
  if (const std::string table = TableOf(comparison); !table.empty()) {
    PrintText(absl::StrCat("\n", table));
  }
  const std::string recommendation = RecommendationOf(comparison);
  if (!recommendation.empty()) {
    PrintText(absl::StrCat("\n", absl::StrJoin(Wrap(recommendation, kTableWidth), "\n"), "\n"));
  }
  std::fflush(Output());
}

absl::Status WriteResults(const CompareCommandLine& line, const Comparison& comparison) {
  if (!line.json.empty()) {
    RETURN_IF_ERROR(
        NamingFlag("--json", WriteOutputFile(UserPath(line.json), ComparisonJson(comparison))));
  }
  if (line.report.empty()) return absl::OkStatus();
  const std::string page = ReportHtml(ComparisonReport(line, comparison));
  return NamingFlag("--report", WriteOutputFile(UserPath(line.report), page));
}

int ReportFaults(const Comparison& comparison) {
  std::fflush(stdout);
  int code = 0;
  for (const StrategyResult& each : comparison.strategies) {
    std::string fault = each.fault;
    if (fault.empty() && !each.same_collectives.ok()) {
      fault = std::string(each.same_collectives.message());
    }
    if (fault.empty()) continue;
    absl::FPrintF(stderr, "error: %s\n", Printable(absl::StrReplaceAll(fault, {{"\n", " "}})));
    const bool differs = each.outcome == Outcome::kDiffers;
    code = std::max(code, differs ? kTrainingDiffers : kSomeDidNotRun);
  }
  return code;
}

}  // namespace tessera
