#include "tools/report/charts/decision_map.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/text/counted.h"
#include "tools/report/charts/svg.h"

namespace tessera {
namespace {

// More decisions are only counted, so that the page stays small.
constexpr size_t kMostDecisions = 200;

std::string RowHtml(const ShownDecision& decision, int fill) {
  return absl::StrCat(
      "<li><span>", Escape(decision.subject),
      "</span><svg width=\"100%\" height=\"20\" "
      "aria-hidden=\"true\"><rect class=\"shape\" y=\"1\" width=\"100%\" height=\"18\" fill=\"",
      FillOf(fill), "\"/></svg><span>", Escape(decision.choice), "</span></li>\n");
}

void AddRows(const ShownDecision& decision, DataTable* table) {
  table->rows.push_back({decision.subject, decision.choice, "chosen", "chosen"});
  for (const ShownAlternative& each : decision.alternatives) {
    table->rows.push_back({decision.subject,
                           absl::StrCat(each.choice, each.lowered ? " (exact)" : ""), each.step,
                           each.peak});
  }
}

}  // namespace

std::string DecisionMapHtml(const std::string& label, const std::vector<ShownDecision>& decisions) {
  if (decisions.empty()) return "";
  std::string html = absl::StrCat("<ul class=\"decisions\" aria-label=\"",
                                  Escape(absl::StrCat("Decisions of ", label)), "\">\n");
  DataTable table = {
      absl::StrCat("What other choices of ", label, " would change, by its estimate"),
      {"subject", "choice", "step", "peak of a rank"},
      {}};
  std::map<std::string, int> fills;  // by choice, in the order in which they occur
  for (size_t i = 0; i < std::min(kMostDecisions, decisions.size()); ++i) {
    const int next = static_cast<int>(fills.size()) % kNoFill;
    absl::StrAppend(&html,
                    RowHtml(decisions[i], fills.emplace(decisions[i].choice, next).first->second));
    AddRows(decisions[i], &table);
  }
  absl::StrAppend(&html, "</ul>\n");
  if (decisions.size() > kMostDecisions) {
    absl::StrAppend(
        &html, "<p class=\"dim\">and ",
        Counted(static_cast<int64_t>(decisions.size() - kMostDecisions), "more decision"),
        "</p>\n");
  }
  return absl::StrCat(html, TableBehind(table));
}

}  // namespace tessera
