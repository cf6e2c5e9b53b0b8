#include "tools/plan/explanation.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/train/ranks/memory_limit.h"
#include "tools/figures/decisions.h"
#include "tools/figures/strategy_table.h"

namespace tessera {
namespace {

constexpr size_t kMostRows = 10;
constexpr size_t kMostDecisions = 200;

std::string Seconds(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "-"; }

std::string Share(double seconds, double all) {
  return absl::StrFormat("%.1f%%", 100 * seconds / all);
}

// "ddp on 64 ranks: a step of 1.23 s".
std::string Head(const Figures& figures) {
  return absl::StrCat(figures.label, " on ", Counted(figures.ranks, "rank"), ": a step of ",
                      FormatSeconds(figures.cost.step_seconds()));
}

std::string Summary(const Figures& figures, const StepProfile& profile) {
  std::string text = absl::StrCat(
      Head(figures), ", of which ", FormatSeconds(profile.computing_seconds), " compute",
      profile.exposed_seconds > 0 ? absl::StrCat(" and ", FormatSeconds(profile.exposed_seconds),
                                                 " are exposed communication")
                                  : "",
      "\npeak ", FormatBytes(figures.peak_bytes), " of a rank");
  if (figures.limit_bytes > 0) {
    absl::StrAppend(&text, figures.fits() ? ", which fits in " : ", which does not fit in ",
                    FormatBytes(figures.limit_bytes));
  }
  return absl::StrCat(text, "\n");
}

std::string LayerRows(const StepProfile& profile) {
  std::string text = absl::StrFormat("\n%-24s%9s%9s%9s%9s%9s%8s\n", "by layer", "forward", "again",
                                     "backward", "update", "exposed", "of step");
  for (const LayerTime& layer : profile.layers) {
    const std::string name =
        layer.count == 1 ? layer.layer : absl::StrCat(layer.layer, " (", layer.count, ")");
    absl::StrAppendFormat(&text, "%-24s%9s%9s%9s%9s%9s%8s\n", name, Seconds(layer.forward),
                          Seconds(layer.recomputation), Seconds(layer.backward),
                          Seconds(layer.update), Seconds(layer.exposed),
                          Share(layer.seconds(), profile.step_seconds));
  }
  return text;
}

// Returns the rate of FLOPs, or of bytes for what computes few.
std::string Rate(const WorkTime& work) {
  if (!(work.seconds > 0)) return "-";
  if (work.flops > work.bytes) return FormatCount(work.flops / work.seconds, "FLOP/s");
  if (!(work.bytes > 0)) return "-";
  return absl::StrCat(FormatBytes(static_cast<int64_t>(work.bytes / work.seconds)), "/s");
}

std::string WorkRows(const std::string& title, const std::vector<WorkTime>& works,
                     double step_seconds) {
  std::string text = absl::StrFormat("\n%10s%8s%10s%8s%15s  %s\n", "each", "calls", "all",
                                     "of step", "rate", title);
  double rest = 0;
  for (size_t i = 0; i < works.size(); ++i) {
    const WorkTime& work = works[i];
    if (i >= kMostRows) {
      rest += work.seconds;
      continue;
    }
    absl::StrAppendFormat(&text, "%10s%8d%10s%8s%15s  %s\n",
                          Seconds(work.seconds / static_cast<double>(work.calls)), work.calls,
                          Seconds(work.seconds), Share(work.seconds, step_seconds), Rate(work),
                          work.name);
  }
  if (works.size() > kMostRows) {
    absl::StrAppendFormat(&text, "%28s%8s%15s  %d more\n", Seconds(rest), Share(rest, step_seconds),
                          "", works.size() - kMostRows);
  }
  return text;
}

std::string WaitRows(const StepProfile& profile) {
  std::string text;
  size_t shown = 0;
  for (const CollectiveWait& wait : profile.waits) {
    if (!(wait.exposed > 0) || shown == kMostRows) break;
    if (++shown == 1) text = "\ncollectives beside which nothing is computed\n";
    absl::StrAppendFormat(&text, "%s of %s exposed, in %s: %s\n  %s\n", FormatSeconds(wait.exposed),
                          FormatSeconds(wait.seconds), Counted(wait.calls, "call"), wait.path,
                          wait.operation);
    absl::StrAppend(
        &text, "  begins ",
        wait.waits_for.empty() ? "with the step" : absl::StrCat("after ", wait.waits_for),
        wait.delays.empty() ? "" : absl::StrCat("; ", wait.delays, " waits for it"), "\n");
  }
  return text;
}

std::string ChangeRows(const Figures& figures, const std::vector<Change>& changes) {
  if (changes.empty()) return "\nno single change of a setting makes it faster or smaller\n";
  std::string text = "\nwhat one change would bring, the best first\n";
  for (size_t i = 0; i < std::min(kMostRows, changes.size()); ++i) {
    const Figures& other = changes[i].figures;
    const double ratio = other.cost.step_seconds() / figures.cost.step_seconds();
    const int64_t more = other.peak_bytes - figures.peak_bytes;
    absl::StrAppendFormat(&text, "%-32s step %s (%+.1f%%), peak %s (%s%s)%s\n", changes[i].setting,
                          FormatSeconds(other.cost.step_seconds()), 100 * (ratio - 1),
                          FormatBytes(other.peak_bytes), more < 0 ? "-" : "+",
                          FormatBytes(more < 0 ? -more : more),
                          other.fits() ? "" : ", does not fit");
  }
  return text;
}

// Returns the strategy's own reasons: its bound, its notes, and its decisions, each with what else
// it could have been.
std::string ReasonRows(const Figures& figures) {
  const strategy::Explanation& reasons = figures.explanation;
  if (!HasReasons(reasons)) return "";
  std::string text = absl::StrCat("\nwhy this Plan, by ", figures.label, "\n");
  if (const std::string bound = BoundText(reasons); !bound.empty()) {
    absl::StrAppend(&text, bound, "\n");
  }
  if (reasons.least_limit_bytes() > 0) {
    absl::StrAppend(&text, "the smallest limit for which it knows a Plan is ",
                    SmallestLimit(reasons.least_limit_bytes()), "\n");
  }
  for (const std::string& note : reasons.notes()) {
    absl::StrAppend(&text, absl::StrJoin(Wrap(note, kTableWidth), "\n"), "\n");
  }
  const std::vector<ShownDecision> decisions = ShownDecisions(reasons);
  if (decisions.empty()) return text;
  absl::StrAppendFormat(&text, "\n%12s%13s  %s\n", "step", "peak",
                        "decision, and estimated changes by other choices");
  for (size_t i = 0; i < std::min(kMostDecisions, decisions.size()); ++i) {
    absl::StrAppendFormat(&text, "%25s  %s: %s\n", "", decisions[i].subject, decisions[i].choice);
    for (const ShownAlternative& each : decisions[i].alternatives) {
      absl::StrAppendFormat(&text, "%12s%13s    %s%s\n", each.step, each.peak, each.choice,
                            each.lowered ? " (exact)" : "");
    }
  }
  if (decisions.size() > kMostDecisions) {
    absl::StrAppendFormat(&text, "%25s  %d more\n", "", decisions.size() - kMostDecisions);
  }
  return text;
}

std::string SourceName(PriceSource source) {
  switch (source) {
    case PriceSource::kMeasured:
      return "measured";
    case PriceSource::kInterpolated:
      return "interpolated";
    case PriceSource::kDescribed:
      break;
  }
  return "by rates";
}

std::string PriceRows(const std::string& title, const std::vector<WorkTime>& works) {
  std::string text =
      absl::StrFormat("\n%10s%8s%10s  %-12s  %s\n", "each", "calls", "all", "price", title);
  for (const WorkTime& work : works) {
    absl::StrAppendFormat(&text, "%10s%8d%10s  %-12s  %s\n",
                          Seconds(work.seconds / static_cast<double>(work.calls)), work.calls,
                          Seconds(work.seconds), SourceName(work.source), work.name);
  }
  return text;
}

}  // namespace

std::string Explanation(const Figures& figures, const StepProfile& profile,
                        const std::optional<std::vector<Change>>& changes) {
  return absl::StrCat(Summary(figures, profile), LayerRows(profile),
                      WorkRows("by operation", profile.kinds, profile.step_seconds),
                      WorkRows("the dearest instructions", profile.requests, profile.step_seconds),
                      WaitRows(profile), ReasonRows(figures),
                      changes.has_value() ? ChangeRows(figures, *changes) : "");
}

std::string PriceTable(const Figures& figures, const StepProfile& profile) {
  std::string text = absl::StrCat(Head(figures), "\n", PriceRows("kernels", profile.requests));
  if (!profile.collectives.empty()) {
    absl::StrAppend(&text, PriceRows("collectives", profile.collectives));
  }
  return text;
}

}  // namespace tessera
