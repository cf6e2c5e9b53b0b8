// The end of a search for Plans: a bound, and why the Plan is as it is.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "strategies/api/search/plan_search.h"

namespace tessera::strategy::search {

Sums PlanSearch::LeastExcess(int index) const {
  const Space& space = spaces_[index];
  Sums excess;
  if (space.least.units.empty()) return excess;
  const auto raise = [](int64_t& most, int64_t by) { most = std::max(most, by); };
  for (const KnownStep& step : space.known) {
    raise(excess.bytes, SumsOf(space.least, step.choices).bytes - step.peak_bytes);
  }
  for (const Candidate* const candidate : candidates_) {
    if (candidate->space != index) continue;
    const Sums sums = SumsOf(space.least, candidate->choices);
    const StepCost& cost = candidate->cost;
    raise(excess.bytes, sums.bytes - cost.peak_bytes());
    if (cost.peak_bytes() > limit_) continue;
    double link_seconds = 0;
    for (const StepCost::Collective& collective : cost.collectives()) {
      link_seconds += collective.seconds();
    }
    const auto ps = [&](double seconds) {
      return static_cast<int64_t>(std::min(seconds, cost.step_seconds()) / space.SecondsOf(1));
    };
    raise(excess.computation_ps, sums.computation_ps - ps(cost.computation_seconds()));
    raise(excess.link_ps, sums.link_ps - ps(link_seconds));
  }
  return excess;
}

double PlanSearch::Bound() const {
  double bound = spaces_.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < spaces_.size(); ++i) {
    const Space& space = spaces_[i];
    Problem least = space.least;
    least.limit_bytes = limit_;
    const Sums excess = LeastExcess(static_cast<int>(i));
    bound = std::min(bound, space.SecondsOf(LeastTime(least, excess)));
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
      const Candidate* const known = KnownOf(space.plan(other), nullptr);
      alternative.set_lowered(known != nullptr);
      if (alternative.lowered()) {
        alternative.set_step_seconds(known->cost.step_seconds());
        alternative.set_peak_bytes(known->cost.peak_bytes());
        continue;
      }
      // The model's differences are closer than its sums.
      const Outcome outcome = Evaluate(space.problem, other);
      alternative.set_step_seconds(candidate.cost.step_seconds() +
                                   space.SecondsOf(outcome.step_ps - now.step_ps));
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
