#include "strategies/api/search/plan_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "strategies/api/search/least_time.h"

namespace tessera::strategy::search {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;
constexpr double kGap = 1e-3;       // of the model's search
constexpr int kProposals = 8;       // for one space, at most
constexpr double kLowerings = 3e8;  // to improve a Plan of a model of one operator
constexpr int64_t kUnused = 100;    // proposals end when less than one part in so many is unused

double Seconds(int64_t ps, int64_t repetitions) {
  return 1e-12 * static_cast<double>(ps) * static_cast<double>(repetitions);
}

absl::StatusOr<Candidate> LowerIn(const Plan& plan, Host& host, TesseraContext* context) {
  LowerPlans request;
  *request.add_plans() = plan;
  request.set_sections(true);
  ASSIGN_OR_RETURN(LoweredPlans lowered, host.Lower(request, context));
  auto& result = *lowered.mutable_plans(0);
  if (!result.error().empty()) return absl::InvalidArgumentError(result.error());
  return Candidate{.plan = plan,
                   .cost = std::move(*result.mutable_cost()),
                   .sections = {result.sections().begin(), result.sections().end()}};
}

}  // namespace

PlanSearch::PlanSearch(int64_t limit_bytes, Host& host, TesseraContext* context)
    : host_(host), context_(context), limit_(limit_bytes == 0 ? kUnlimited : limit_bytes) {}

absl::StatusOr<Candidate> PlanSearch::Lower(const Plan& plan, TesseraContext* other) {
  if (other != nullptr) return LowerIn(plan, host_, other);
  ASSIGN_OR_RETURN(const Candidate* const candidate, LowerOnce(plan));
  return *candidate;
}

absl::StatusOr<Candidate*> PlanSearch::LowerOnce(const Plan& plan) {
  const std::string key = plan.SerializeAsString();
  if (const auto known = by_plan_.find(key); known != by_plan_.end()) return known->second;
  ASSIGN_OR_RETURN(Candidate candidate, LowerIn(plan, host_, context_));
  candidates_.push_back(std::move(candidate));
  return by_plan_[key] = &candidates_.back();
}

absl::StatusOr<Candidate*> PlanSearch::LowerChoices(int space, const std::vector<int>& choices) {
  ASSIGN_OR_RETURN(Candidate* const candidate, LowerOnce(spaces_[space].plan(choices)));
  if (candidate->space < 0) {
    candidate->space = space;
    candidate->choices = choices;
  }
  return candidate;
}

absl::StatusOr<double> PlanSearch::Search(Space space) {
  const int index = static_cast<int>(spaces_.size());
  spaces_.push_back(std::move(space));
  beyond_sketch_.push_back(0);
  // They are candidates of this space.
  for (const KnownStep& step : spaces_[index].known) {
    if (spaces_[index].sketch != nullptr) break;
    RETURN_IF_ERROR(LowerChoices(index, step.choices).status());
  }
  RETURN_IF_ERROR(Propose(index));
  Report();
  const Candidate* const fastest = FastestWithin(limit_, index);
  return fastest == nullptr ? kInfinite : fastest->cost.step_seconds();
}

absl::StatusOr<int64_t> PlanSearch::PeakOf(int space, const std::vector<int>& choices) {
  if (spaces_[space].sketch != nullptr) {
    ASSIGN_OR_RETURN(const StepCost cost, spaces_[space].sketch(choices));
    return cost.peak_bytes() + beyond_sketch_[space];
  }
  ASSIGN_OR_RETURN(const Candidate* const lowered, LowerChoices(space, choices));
  return lowered->cost.peak_bytes();
}

// Choices that do not fit need a greater excess; if they fit, or if the model has none, a smaller
// one may be enough.
absl::StatusOr<std::vector<int>> PlanSearch::Correct(int space) {
  Problem& problem = spaces_[space].problem;
  std::vector<int> fitting;
  // By how much the Plan's memory exceeds the model's: what was tried, and the range that it is in.
  int64_t excess = 0, low = -kUnlimited, high = kUnlimited;
  for (int i = 0; i < kProposals && !host_.cancelled(); ++i) {
    problem.limit_bytes = limit_ - excess;
    const Solution solution =
        Solve(problem, {.gap = kGap, .stop = [this] { return host_.cancelled(); }});
    std::vector<int> choices = solution.found() ? solution.choices : solution.least_choices;
    if (choices.empty()) break;
    absl::StatusOr<int64_t> peak = PeakOf(space, choices);
    if (absl::IsInvalidArgument(peak.status())) break;
    RETURN_IF_ERROR(peak.status());
    const std::vector<KnownStep>& known = spaces_[space].known;
    if (!solution.found() && *peak > limit_ && !known.empty()) {
      choices = std::min_element(known.begin(), known.end(), [](const auto& a, const auto& b) {
                  return a.peak_bytes < b.peak_bytes;
                })->choices;
      ASSIGN_OR_RETURN(peak, PeakOf(space, choices));
    }
    const bool fits = *peak <= limit_;
    const int64_t found = *peak - Evaluate(problem, choices).peak_bytes;
    if (fits) fitting = std::move(choices);
    if (fits && limit_ - *peak < limit_ / kUnused) break;
    if (fits || !solution.found()) high = excess;
    if (!fits && solution.found()) low = excess;
    if (found > low && found < high) {
      excess = found;
    } else if (low > -kUnlimited && high < kUnlimited && high - low > limit_ / kUnused) {
      excess = low + (high - low) / 2;
    } else {
      break;
    }
  }
  return fitting;
}

absl::Status PlanSearch::Propose(int space) {
  for (int i = 0; i < kProposals; ++i) {
    ASSIGN_OR_RETURN(const std::vector<int> fitting, Correct(space));
    if (fitting.empty() || spaces_[space].sketch == nullptr) break;
    ASSIGN_OR_RETURN(const int64_t sketched, PeakOf(space, fitting));
    ASSIGN_OR_RETURN(const Candidate* const lowered, LowerChoices(space, fitting));
    const int64_t beyond = lowered->cost.peak_bytes() - sketched;
    if (beyond <= 0 || lowered->cost.peak_bytes() <= limit_) break;
    beyond_sketch_[space] += beyond;
  }
  return absl::OkStatus();
}

absl::Status PlanSearch::FindSmallest() {
  // Where Plans were only sketched, the leanest one is lowered.
  for (size_t i = 0; i < spaces_.size(); ++i) {
    if (spaces_[i].sketch == nullptr) continue;
    spaces_[i].problem.limit_bytes = 0;
    const auto lowered = LowerChoices(static_cast<int>(i), Solve(spaces_[i].problem).least_choices);
    if (!absl::IsInvalidArgument(lowered.status())) RETURN_IF_ERROR(lowered.status());
  }
  const int64_t requested = limit_;
  absl::Status status;
  for (bool smaller = true; smaller && status.ok() && !host_.cancelled();) {
    limit_ = Smallest()->cost.peak_bytes() - 1;
    for (size_t i = spaces_.size(); i-- > 0 && status.ok() && best() == nullptr;) {
      status = Propose(static_cast<int>(i));
    }
    smaller = best() != nullptr;
  }
  limit_ = requested;
  return status;
}

std::vector<PlanSearch::Change> PlanSearch::ChangesOf(const Candidate& candidate,
                                                      bool of_two) const {
  const Problem& problem = spaces_[candidate.space].problem;
  std::vector<int> choices = candidate.choices;
  std::vector<Change> changes;
  const auto add = [&] {
    const Outcome outcome = Evaluate(problem, choices);
    changes.push_back({outcome.peak_bytes > problem.limit_bytes, outcome.step_ps, choices});
  };
  // Calls `then` with each other choice of a unit.
  const auto for_each_other = [&](size_t unit, const auto& then) {
    const int chosen = choices[unit];
    for (size_t k = 0; k < problem.units[unit].size(); ++k) {
      choices[unit] = static_cast<int>(k);
      if (choices[unit] != chosen) then();
    }
    choices[unit] = chosen;
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    for_each_other(i, [&] {
      if (!of_two) return add();
      for (size_t j = i + 1; j < choices.size(); ++j) for_each_other(j, add);
    });
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.exceeds, a.step_ps, a.choices) < std::tie(b.exceeds, b.step_ps, b.choices);
  });
  return changes;
}

// First what the model says is fastest; what exceeds the limit by the model comes last.
absl::Status PlanSearch::Improve(int most) {
  most += size();
  const Candidate* fastest = best();
  for (bool of_two = false; fastest != nullptr && fastest->space >= 0;) {
    for (const Change& change : ChangesOf(*fastest, of_two)) {
      if (size() >= most || host_.cancelled()) return absl::OkStatus();
      const auto lowered = LowerChoices(fastest->space, change.choices);
      if (!absl::IsInvalidArgument(lowered.status())) RETURN_IF_ERROR(lowered.status());
      if (of_two && best() != fastest) break;
    }
    Report();
    const bool improved = best() != fastest;
    if (of_two && !improved) break;
    of_two = !improved;
    fastest = best();
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanSearch::MostImprovements() const {
  ASSIGN_OR_RETURN(const RunGraphs graphs, host_.Graphs(context_));
  double operators = 1;
  for (const GraphProto& graph : graphs.graphs()) {
    operators = std::max<double>(operators, graph.ops_size());
  }
  if (best() != nullptr && best()->space >= 0) {
    operators *= static_cast<double>(spaces_[best()->space].repetitions);
  }
  return static_cast<int>(std::clamp(kLowerings / operators / operators, 3., 500.));
}

absl::StatusOr<const Candidate*> PlanSearch::Finish() {
  if (Smallest() == nullptr) return absl::InvalidArgumentError("no Plan of the search can be run");
  if (best() == nullptr) RETURN_IF_ERROR(FindSmallest());
  ASSIGN_OR_RETURN(const int most, MostImprovements());
  RETURN_IF_ERROR(Improve(most));
  if (best() != nullptr) return best();
  return absl::ResourceExhaustedError(absl::StrCat("no Plan of the search fits into ", limit_,
                                                   " bytes; the smallest limit that was found is ",
                                                   Smallest()->cost.peak_bytes()));
}

const Candidate* PlanSearch::FastestWithin(int64_t limit, int space) const {
  const Candidate* fastest = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (candidate.cost.peak_bytes() > limit || (space >= 0 && candidate.space != space)) continue;
    if (fastest == nullptr || candidate.cost.step_seconds() < fastest->cost.step_seconds()) {
      fastest = &candidate;
    }
  }
  return fastest;
}

const Candidate* PlanSearch::Smallest() const {
  const Candidate* smallest = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (smallest == nullptr || candidate.cost.peak_bytes() < smallest->cost.peak_bytes()) {
      smallest = &candidate;
    }
  }
  return smallest;
}

void PlanSearch::Report() const {
  Progress progress;
  progress.set_fraction(-1);  // how many Plans there will be is not known
  progress.set_message(absl::StrCat(size(), " Plans are lowered"));
  if (const Candidate* const fastest = best(); fastest != nullptr) {
    absl::StrAppendFormat(progress.mutable_message(), "; the fastest that fits takes %.4g s",
                          fastest->cost.step_seconds());
    *progress.mutable_best() = fastest->plan;
  }
  host_.Report(progress);
}

double PlanSearch::Bound() const {
  double bound = spaces_.empty() ? 0 : kInfinite;
  for (const Space& space : spaces_) {
    Problem least = space.least;
    least.limit_bytes = limit_;
    bound = std::min(bound, Seconds(LeastTime(least), space.repetitions));
  }
  return bound;
}

Explanation PlanSearch::Explain(const Candidate& candidate) const {
  Explanation explanation;
  explanation.set_bound_seconds(Bound());
  explanation.set_least_limit_bytes(Smallest()->cost.peak_bytes());
  if (candidate.space < 0) {
    explanation.add_notes("nothing was left to decide");
    return explanation;
  }
  const Space& space = spaces_[candidate.space];
  const Outcome now = Evaluate(space.problem, candidate.choices);
  std::map<std::string, int> counts;
  for (size_t i = 0; i < space.units.size(); ++i) {
    const Space::Unit& unit = space.units[i];
    if (unit.alternatives.size() < 2) continue;
    Explanation::Decision& decision = *explanation.add_decisions();
    decision.set_subject(unit.name);
    decision.set_choice(unit.alternatives[candidate.choices[i]]);
    ++counts[decision.choice()];
    std::vector<int> other = candidate.choices;
    for (size_t k = 0; k < unit.alternatives.size(); ++k) {
      other[i] = static_cast<int>(k);
      if (other[i] == candidate.choices[i]) continue;
      Explanation::Decision::Alternative& alternative = *decision.add_alternatives();
      alternative.set_choice(unit.alternatives[k]);
      const auto known = by_plan_.find(space.plan(other).SerializeAsString());
      alternative.set_lowered(known != by_plan_.end());
      if (alternative.lowered()) {
        alternative.set_step_seconds(known->second->cost.step_seconds());
        alternative.set_peak_bytes(known->second->cost.peak_bytes());
        continue;
      }
      // The model's differences are closer than its sums.
      const Outcome outcome = Evaluate(space.problem, other);
      alternative.set_step_seconds(candidate.cost.step_seconds() +
                                   Seconds(outcome.step_ps - now.step_ps, space.repetitions));
      alternative.set_peak_bytes(candidate.cost.peak_bytes() + outcome.peak_bytes - now.peak_bytes);
    }
  }
  std::vector<std::string> parts;
  for (const auto& [choice, count] : counts) parts.push_back(absl::StrCat(count, " ", choice));
  if (!space.name.empty()) parts.push_back(space.name);
  explanation.add_notes(absl::StrCat("of ", explanation.decisions_size(),
                                     " decisions: ", absl::StrJoin(parts, "; "), "; ", size(),
                                     " Plans were lowered"));
  const double computation = std::max(candidate.cost.computation_seconds(), 1e-30);
  explanation.add_notes(absl::StrFormat(
      "decided by prices of which %.0f%% of computation was measured, %.0f%% interpolated, and the "
      "rest is by the rates of the cluster",
      100 * candidate.cost.measured_seconds() / computation,
      100 * candidate.cost.interpolated_seconds() / computation));
  return explanation;
}

}  // namespace tessera::strategy::search
