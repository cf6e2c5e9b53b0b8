#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/cost/step_cost.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/ranks/memory_limit.h"
#include "tools/figures/decisions.h"
#include "tools/report/charts/decision_map.h"
#include "tools/report/charts/loss_chart.h"
#include "tools/report/charts/plan_map.h"
#include "tools/report/charts/svg.h"
#include "tools/report/sections/sections.h"

namespace tessera {
namespace {

// Returns the Plan by layer, or the strategy above it that has the same layers.
std::string PlanOf(const ReportedStrategy& strategy,
                   const std::vector<const ReportedStrategy*>& before) {
  const PlanRows& plan = strategy.view->plan;
  for (const ReportedStrategy* const other : before) {
    if (other->view->plan.rows != plan.rows) continue;
    return absl::StrCat(PlanSettingsHtml(plan), "<p class=\"dim\">The layers are as those of ",
                        Escape(other->label), ".</p>\n");
  }
  return absl::StrCat(PlanSettingsHtml(plan), PlanMapHtml(strategy.label, plan));
}

std::string ListHtml(const std::vector<std::string>& sentences) {
  std::string html = "<ul>";
  for (const std::string& sentence : sentences) {
    absl::StrAppend(&html, "<li>", Escape(sentence), "</li>");
  }
  return html + "</ul>\n";
}

// Returns the strategy's reasons for its Plan; "" if it gave none.
std::string ReasonsOf(const ReportedStrategy& strategy) {
  const strategy::Explanation& reasons = strategy.explanation;
  if (!HasReasons(reasons)) return "";
  std::vector<std::string> sentences;
  if (std::string bound = BoundText(reasons); !bound.empty()) {
    sentences.push_back(absl::StrCat("The predicted step is ", bound, "."));
  }
  if (reasons.least_limit_bytes() > 0) {
    sentences.push_back(absl::StrCat("The smallest limit for which it knows a Plan is ",
                                     SmallestLimit(reasons.least_limit_bytes()), "."));
  }
  sentences.insert(sentences.end(), reasons.notes().begin(), reasons.notes().end());
  return absl::StrCat("<h3>Why this Plan, by ", Escape(strategy.label), "</h3>\n",
                      sentences.empty() ? "" : ListHtml(sentences),
                      DecisionMapHtml(strategy.label, ShownDecisions(reasons)));
}

std::string Empty(const char* why) { return absl::StrCat("<p class=\"empty\">", why, "</p>\n"); }

void AppendTerm(const char* name, const std::string& text, std::string* html) {
  if (text.empty()) return;
  absl::StrAppend(html, "<dt>", name, "</dt><dd>", Escape(text), "</dd>\n");
}

}  // namespace

Section CommunicationSection(const ReportData& data) {
  DataTable table = {"Collectives of a step; bytes are those of the rank that sends the most",
                     {"strategy", "collective", "calls", "bytes sent", "time", "exposed"},
                     {}};
  for (const ReportedStrategy& strategy : data.strategies) {
    if (!strategy.estimated.has_value()) continue;
    for (const StepCost::Collective& each : strategy.estimated->collectives()) {
      table.rows.push_back({strategy.label, NameOf(each), absl::StrCat(each.calls()),
                            FormatBytes(each.bytes()), FormatSeconds(each.seconds()),
                            FormatSeconds(each.exposed_seconds())});
    }
    for (const StepCost::HostCopies& each : strategy.estimated->host_copies()) {
      table.rows.push_back({strategy.label,
                            each.to_host() ? "copies to the host" : "copies from the host",
                            absl::StrCat(each.calls()), FormatBytes(each.bytes()), "-", "-"});
    }
  }
  return {"communication", "Communication",
          table.rows.empty() ? Empty("No strategy communicates.") : TableHtml(table)};
}

Section LossSection(const ReportData& data) {
  std::vector<LossCurve> curves;
  for (const ReportedStrategy& strategy : data.strategies) {
    if (strategy.losses.empty()) continue;
    curves.push_back({strategy.label, strategy.first_step, strategy.losses});
  }
  const std::string html = LossChartHtml(curves);
  return {"losses", "Losses",
          html.empty() ? Empty("Nothing was trained, so there are no losses.") : html};
}

Section PlanSection(const ReportData& data) {
  const auto planned = absl::c_count_if(data.strategies, [](const ReportedStrategy& each) {
    return each.view.has_value() && !each.view->plan.rows.empty();
  });
  if (planned == 0) return {"plans", "Plans by layer", Empty("No strategy has a Plan.")};
  std::string html = absl::StrCat(
      "<p class=\"dim\">Each cell is a parameter with its stored layout: B is a copy on every "
      "rank, S(d) a split along dimension d. Equal blocks are shown once.</p>\n",
      PlanMapLegend());
  std::vector<const ReportedStrategy*> before;
  for (const ReportedStrategy& strategy : data.strategies) {
    if (!strategy.view.has_value() || strategy.view->plan.rows.empty()) continue;
    // If there are many, only the first one is open.
    const bool open = before.empty() || planned <= 2;
    absl::StrAppend(&html, "<details class=\"plan\"", open ? " open" : "", "><summary>",
                    Escape(strategy.label), "</summary>\n", PlanOf(strategy, before),
                    ReasonsOf(strategy), "</details>\n");
    before.push_back(&strategy);
  }
  return {"plans", "Plans by layer", html};
}

Section ChecksSection(const ReportData& data) {
  return {"checks", "Checked to be equal",
          data.checks.empty() ? Empty("Nothing was run, so nothing was compared.")
                              : ListHtml(data.checks)};
}

Section MachineSection(const ReportData& data) {
  std::string html = "<dl>\n";
  AppendTerm("machine", data.machine, &html);
  AppendTerm("ranks", data.ranks, &html);
  if (data.threads > 0) AppendTerm("threads", absl::StrCat(data.threads, " of each rank"), &html);
  AppendTerm("predicted times are for", data.cluster, &html);
  absl::StrAppend(&html, "</dl>\n");
  for (const std::string& command : data.commands) {
    absl::StrAppend(&html, "<pre tabindex=\"0\" aria-label=\"Command\"><code>", Escape(command),
                    "</code></pre>\n");
  }
  return {"machine", "Machine and commands", html};
}

}  // namespace tessera
