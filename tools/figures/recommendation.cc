#include "tools/figures/recommendation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

using Figures = std::vector<const StrategyFigures*>;

// A smaller share of a step time or of memory is no difference.
constexpr double kLeastShare = 0.01;
// Steps that spread by more than this may hide a difference.
constexpr double kMostEqual = 0.05;
// The least share of the difference in exposed communication for which a kind is named.
constexpr double kMostOf = 0.6;
// The least share of the additional time for which a second reason is named.
constexpr double kLeastReason = 0.3;

// "0.9 %", "3 %", "11 %".
std::string Percent(double share) {
  const double percent = 100 * std::abs(share);
  const std::string text = absl::StrFormat("%.*f", percent < 9.95 ? 1 : 0, percent);
  return absl::StrCat(absl::StripSuffix(text, ".0"), " %");
}

std::string Times(double factor) {
  return absl::StrFormat("%.*f times", factor < 9.95 ? 1 : 0, factor);
}

// "a", "a and b", "a, b and c".
std::string Joined(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  return absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, ", "), " and ", words.back());
}

bool StepsDiffer(const StrategyFigures& a, const StrategyFigures& b) {
  const double least = kLeastShare * std::min(a.step_seconds, b.step_seconds);
  const double spread = std::max(a.spread_seconds, b.spread_seconds);
  return std::abs(a.step_seconds - b.step_seconds) > std::max(least, spread);
}

// Returns how much more memory `a` needs than `b`, which may be less than 0; 0 if the difference is
// nothing, or not known.
int64_t MoreBytes(const StrategyFigures& a, const StrategyFigures& b) {
  const int64_t more = a.peak_bytes - b.peak_bytes;
  const bool is_known = a.peak_bytes > 0 && b.peak_bytes > 0;
  const double least = kLeastShare * static_cast<double>(std::min(a.peak_bytes, b.peak_bytes));
  return is_known && static_cast<double>(std::abs(more)) >= least ? more : 0;
}

// "4.2 GiB less", "4.2 GiB more".
std::string MemoryText(int64_t more) {
  return absl::StrCat(FormatBytes(std::abs(more)), more > 0 ? " more" : " less");
}

// Returns the word for collectives of this operation.
std::string KindOf(const std::string& operation) {
  if (operation == "all-gather") return "gathers";
  if (operation == "all-reduce" || operation == "reduce-scatter") return "reductions";
  return "exchanges";
}

// Adds the exposed communication of each kind, times `sign`.
void AddByKind(const StrategyFigures& figures, double sign, std::map<std::string, double>* kinds) {
  double sum = 0;
  for (const StrategyFigures::Exposed& each : figures.exposed) sum += each.seconds;
  if (!(sum > 0)) return;
  for (const StrategyFigures::Exposed& each : figures.exposed) {
    (*kinds)[KindOf(each.operation)] += sign * figures.exposed_seconds * each.seconds / sum;
  }
}

// Returns the kind of collectives of which one strategy exposes more than another one, if it
// explains most of the difference; else "".
std::string MainKind(const StrategyFigures& slow, const StrategyFigures& fast) {
  std::map<std::string, double> kinds;
  AddByKind(slow, 1, &kinds);
  AddByKind(fast, -1, &kinds);
  const auto most =
      absl::c_max_element(kinds, [](const auto& a, const auto& b) { return a.second < b.second; });
  const double more = slow.exposed_seconds - fast.exposed_seconds;
  return most != kinds.end() && most->second >= kMostOf * more ? most->first : "";
}

std::string ExposedReason(const StrategyFigures& slow, const StrategyFigures& fast) {
  const std::string kind = MainKind(slow, fast);
  if (fast.exposed_seconds >= 0.1 * slow.exposed_seconds) {
    const std::string more = FormatSeconds(slow.exposed_seconds - fast.exposed_seconds);
    return absl::StrCat(more, " more of communication is exposed",
                        kind.empty() ? "" : absl::StrCat(", due to ", kind));
  }
  const std::string seconds = FormatSeconds(slow.exposed_seconds);
  if (kind.empty()) return absl::StrCat(seconds, " of communication is exposed");
  return absl::StrCat(seconds, " of ", kind, " are exposed");
}

std::string ComputationReason(const StrategyFigures& slow, const StrategyFigures& fast) {
  const double more = slow.computation_seconds - fast.computation_seconds;
  const double recomputed = slow.recomputation_seconds - fast.recomputation_seconds;
  if (recomputed > more / 2) {
    return absl::StrCat("it recomputes activations for ", FormatSeconds(recomputed));
  }
  if (slow.micro_batches > fast.micro_batches) {
    return absl::StrCat("its ", slow.micro_batches, " micro-batches compute ", FormatSeconds(more),
                        " longer");
  }
  return absl::StrCat("its computation takes ", FormatSeconds(more), " longer");
}

// Returns why a step takes longer than another one; "" if its parts do not show it.
std::string Reason(const StrategyFigures& slow, const StrategyFigures& fast) {
  const double exposed = slow.exposed_seconds - fast.exposed_seconds;
  const double computed = slow.computation_seconds - fast.computation_seconds;
  std::vector<std::string> reasons;
  if (exposed > 0) reasons.push_back(ExposedReason(slow, fast));
  if (computed > 0) reasons.push_back(ComputationReason(slow, fast));
  if (reasons.size() < 2) return absl::StrJoin(reasons, "");
  if (exposed < computed) std::swap(reasons[0], reasons[1]);
  if (std::min(exposed, computed) < kLeastReason * (exposed + computed)) reasons.pop_back();
  return absl::StrJoin(reasons, ", and ");
}

bool NeedsLess(const StrategyFigures* a, const StrategyFigures* b) {
  return a->peak_bytes < b->peak_bytes;
}

// The sentence of a recommendation, from its clauses.
class Sentence {
 public:
  Sentence(absl::Span<const StrategyFigures> strategies, FiguresAre figures) : figures_(figures) {
    names_ranks_ = absl::c_any_of(strategies, [&](const StrategyFigures& each) {
      return each.ranks != strategies.front().ranks;
    });
    std::vector<int64_t> batches, of_fitting;
    for (const StrategyFigures& each : strategies) {
      batches.push_back(each.batch);
      if (each.fits) of_fitting.push_back(each.batch);
    }
    batch_ = MostFrequentBatch(batches);
    if (!absl::c_linear_search(of_fitting, batch_)) batch_ = MostFrequentBatch(of_fitting);
    for (const StrategyFigures& each : strategies) {
      (!each.fits ? unfit_ : each.batch == batch_ ? same_ : others_).push_back(&each);
    }
    absl::c_stable_sort(same_, [](const StrategyFigures* a, const StrategyFigures* b) {
      return a->step_seconds < b->step_seconds;
    });
  }

  std::string ToString() {
    if (same_.empty()) return NoneFits();
    if (same_.size() + others_.size() == 1) {
      return absl::StrCat("only ", Name(*same_.front()), " fits; ", UnfitText());
    }
    AddFastest();
    AddOtherBatch();
    AddUnfit();
    return absl::StrJoin(clauses_, "; ");
  }

 private:
  std::string Name(const StrategyFigures& each) const {
    return names_ranks_ ? absl::StrCat(each.label, " on ", Counted(each.ranks, "rank"))
                        : each.label;
  }

  std::string Names(const Figures& figures) const {
    std::vector<std::string> names;
    for (const StrategyFigures* each : figures) names.push_back(Name(*each));
    return Joined(names);
  }

  std::string Here() const {
    return figures_ == FiguresAre::kMeasured ? "here" : "by these predictions";
  }

  std::string NoneFits() const {
    const StrategyFigures& least = **absl::c_min_element(unfit_, NeedsLess);
    if (least.peak_bytes <= 0) return absl::StrCat("none of ", Names(unfit_), " fits");
    return absl::StrCat("none of ", Names(unfit_), " fits; ", Name(least), " needs the least, ",
                        FormatBytes(least.peak_bytes));
  }

  std::string UnfitText() const {
    std::vector<std::string> names;
    for (const StrategyFigures* each : unfit_) {
      names.push_back(each->peak_bytes > 0
                          ? absl::StrCat(Name(*each), " (", FormatBytes(each->peak_bytes), ")")
                          : Name(*each));
    }
    return absl::StrCat(Joined(names), names.size() == 1 ? " does not fit" : " do not fit");
  }

  void AddUnfit() {
    if (!unfit_.empty()) clauses_.push_back(UnfitText());
  }

  // Adds the fastest strategies of the common batch, and others of it.
  void AddFastest() {
    const StrategyFigures& fastest = *same_.front();
    Figures equal, slower;
    for (const StrategyFigures* each : same_) {
      (StepsDiffer(fastest, *each) ? slower : equal).push_back(each);
    }
    const StrategyFigures* base = &fastest;
    if (equal.size() > 1) {
      base = AddEqual(equal);
    } else if (same_.size() > 1) {
      clauses_.push_back(absl::StrCat(Name(fastest), " is fastest ", Here()));
    }
    for (const StrategyFigures* each : NotableOf(slower, *base)) AddSlower(*each, fastest, *base);
  }

  // Adds strategies that are equally fast, and returns the one among them that needs least memory.
  const StrategyFigures* AddEqual(const Figures& equal) {
    const StrategyFigures &first = *equal.front(), &last = *equal.back();
    double spread = 0;
    for (const StrategyFigures* each : equal) {
      spread = std::max(spread, each->spread_seconds / each->step_seconds);
    }
    const double difference = last.step_seconds / first.step_seconds - 1;
    clauses_.push_back(absl::StrCat(
        difference > kMostEqual ? "it does not show which of " : "", Names(InOrder(equal)),
        difference > kMostEqual ? " is fastest " : " are equally fast ", Here(),
        " (they differ by ", equal.size() > 2 ? "up to " : "", Percent(difference),
        spread > 0 ? absl::StrCat(", and steps spread by ", Percent(spread)) : "", ")"));
    const StrategyFigures& least = **absl::c_min_element(equal, NeedsLess);
    const StrategyFigures& most = **absl::c_max_element(equal, NeedsLess);
    const int64_t more = MoreBytes(least, most);
    if (more == 0) return &first;
    clauses_.push_back(equal.size() == 2 ? absl::StrCat(Name(least), " needs ", MemoryText(more))
                                         : absl::StrCat(Name(least), " needs ", MemoryText(more),
                                                        " than ", Name(most)));
    return &least;
  }

  // Returns the strategies in the order of the input.
  static Figures InOrder(Figures figures) {
    absl::c_sort(figures);  // pointers into one array
    return figures;
  }

  // Returns the fastest of the slower strategies, and the one that needs least memory if that is
  // less than `base` needs.
  static Figures NotableOf(const Figures& slower, const StrategyFigures& base) {
    if (slower.size() < 3) return slower;
    Figures notable = {slower.front()};
    const StrategyFigures* least = slower.front();
    for (const StrategyFigures* each : slower) {
      if (MoreBytes(*each, *least) < 0) least = each;
    }
    if (least != slower.front() && MoreBytes(*least, base) < 0) notable.push_back(least);
    return notable;
  }

  void AddSlower(const StrategyFigures& slow, const StrategyFigures& fastest,
                 const StrategyFigures& base) {
    const double factor = slow.step_seconds / fastest.step_seconds;
    const std::string reason = Reason(slow, fastest);
    const int64_t more = MoreBytes(slow, base);
    clauses_.push_back(absl::StrCat(
        Name(slow),
        factor < 2 ? absl::StrCat(" is ", Percent(factor - 1), " slower")
                   : absl::StrCat(" takes ", Times(factor), " as long"),
        reason.empty() ? "" : absl::StrCat(" (", reason, ")"),
        more == 0 ? ""
                  : absl::StrCat(more < 0 ? ", but needs " : " and needs ", MemoryText(more))));
  }

  // Adds the strategy with another batch that processes most samples.
  void AddOtherBatch() {
    if (others_.empty()) return;
    const StrategyFigures& best = **absl::c_max_element(others_, [](const auto* a, const auto* b) {
      return a->samples_per_second < b->samples_per_second;
    });
    const StrategyFigures& fastest = *same_.front();
    const double factor = best.samples_per_second / fastest.samples_per_second;
    const double spread = std::max(best.spread_seconds / best.step_seconds,
                                   fastest.spread_seconds / fastest.step_seconds);
    const bool is_equal = std::abs(factor - 1) <= std::max(kLeastShare, spread);
    const int64_t more = MoreBytes(best, fastest);
    clauses_.push_back(
        absl::StrCat(Name(best), ", another training with batch ", best.batch, ", processes ",
                     is_equal      ? "as many"
                     : factor >= 2 ? absl::StrCat(Times(factor), " as many")
                     : factor > 1  ? absl::StrCat(Percent(factor - 1), " more")
                                   : absl::StrCat(Percent(1 - factor), " fewer"),
                     " samples/s ", is_equal || factor >= 2 ? "as " : "than ", Name(fastest),
                     more == 0 ? "" : absl::StrCat(" and needs ", MemoryText(more))));
  }

  const FiguresAre figures_;
  bool names_ranks_ = false;  // they differ
  int64_t batch_ = 0;
  // Those of the common batch, the fastest first; those of other batches; those that do not fit.
  Figures same_, others_, unfit_;
  std::vector<std::string> clauses_;
};

}  // namespace

StrategyFigures PredictedFigures(const StepCost& cost, int64_t batch) {
  StrategyFigures figures;
  figures.batch = batch;
  figures.step_seconds = cost.step_seconds();
  figures.computation_seconds = cost.computation_seconds();
  figures.exposed_seconds = cost.exposed_seconds();
  figures.peak_bytes = cost.peak_bytes();
  for (const StepCost::Time& time : cost.times()) {
    if (time.category() == "recomputation") figures.recomputation_seconds = time.seconds();
  }
  for (const StepCost::Collective& each : cost.collectives()) {
    figures.exposed.push_back({each.operation(), each.exposed_seconds()});
  }
  if (cost.step_seconds() > 0) {
    figures.samples_per_second = static_cast<double>(batch) / cost.step_seconds();
  }
  return figures;
}

int64_t MostFrequentBatch(absl::Span<const int64_t> batches) {
  int64_t found = 0, most = 0;
  for (const int64_t batch : batches) {
    const int64_t count = absl::c_count(batches, batch);
    if (count <= most) continue;
    most = count;
    found = batch;
  }
  return found;
}

std::string Recommendation(absl::Span<const StrategyFigures> strategies, FiguresAre figures) {
  return strategies.size() < 2 ? "" : Sentence(strategies, figures).ToString();
}

}  // namespace tessera
