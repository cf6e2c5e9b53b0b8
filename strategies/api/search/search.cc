#include "strategies/api/search/search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "strategies/api/search/clock_bound.h"
#include "strategies/api/search/relaxation.h"

namespace tessera::strategy::search {
namespace {

bool NoWorse(const Partial& a, const Partial& b) {
  return a.forward_ps <= b.forward_ps && a.forward_link_ps <= b.forward_link_ps &&
         a.backward_ps <= b.backward_ps && a.backward_link_ps <= b.backward_link_ps &&
         a.waiting_ps <= b.waiting_ps && a.held_bytes <= b.held_bytes &&
         a.growth_bytes <= b.growth_bytes && a.peak_bytes <= b.peak_bytes;
}

class Searcher {
 public:
  // With `least`, the objective is the peak, and else the time.
  Searcher(const Problem& problem, bool least, double gap)
      : problem_(problem), least_(least), gap_(gap) {
    const size_t units = problem.units.size();
    least_held_.assign(units + 1, 0);
    least_total_.assign(units + 1, 0);
    least_peak_.assign(units + 1, 0);
    longest_gather_ps_.assign(units, 0);
    for (size_t i = 0; i < units; ++i) {
      int64_t held = INT64_MAX, total = INT64_MAX, growth = INT64_MAX, surge = INT64_MAX;
      for (const Alternative& unit : problem.units[i]) {
        held = std::min(held, unit.held_bytes);
        total = std::min(total, unit.held_bytes + unit.growth_bytes);
        growth = std::min(growth, unit.growth_bytes);
        surge = std::min(surge, std::max(unit.surge_bytes, unit.growth_bytes));
        longest_gather_ps_[i] = std::max(longest_gather_ps_[i], unit.backward_gather_ps);
      }
      least_held_[i + 1] = least_held_[i] + held;
      least_total_[i + 1] = least_total_[i] + total;
      // Over the units before i + 1, in reverse: unit i's surge comes first.
      least_peak_[i + 1] = std::max(surge, growth + (i == 0 ? 0 : least_peak_[i]));
    }
    if (least || units == 0) return;
    AddRelaxations(static_cast<int>(units) - 1);
    AddRelaxations(0);
  }

  // Keeps at most `width` partial choices for a unit. Returns whether the result is proven.
  bool Run(int width);

  // Uses a choice that is known.
  void Offer(const std::vector<int>& choices) {
    const Outcome outcome = Evaluate(problem_, choices);
    if (!least_ && outcome.peak_bytes > problem_.limit_bytes) return;
    const int64_t objective = least_ ? outcome.peak_bytes : outcome.step_ps;
    if (objective >= best_) return;
    best_ = objective;
    choices_ = choices;
  }
  // Changes one unit at a time, as long as that is better.
  void Improve();
  // Adds relaxations by the bytes at the peak of the best choice.
  void RelaxAtPeak();

  const std::vector<int>& choices() const { return choices_; }
  int64_t best() const { return best_; }
  int64_t bound() const { return std::min(best_, bound_); }

 private:
  // Adds relaxations by the bytes at a unit, once.
  void AddRelaxations(int position);
  // Adds a bound with the weights and the bytes of the relaxation.
  void AddClockBound(const Relaxation& relaxation);
  // Sets the multiplier with the best bound for the weights.
  void Maximise(Relaxation& relaxation) const;
  // Returns the bound of the problem, and sets by how many bytes its solution exceeds the limit.
  double BoundOf(const Relaxation& relaxation, int64_t* excess) const;
  double BoundOf(const Partial& partial, int first_unit) const;
  // Sorts by bound, and keeps those that may lead to the best choice.
  void Prune(std::vector<Partial>& partials, int width, double* dropped) const;
  // No completion of a partial choice with a larger bound is of use.
  double Threshold() const {
    if (best_ == INT64_MAX) return kInfinite;
    return std::min<double>(best_ - 1, best_ / (1 + gap_));
  }

  const Problem& problem_;
  const bool least_;
  const double gap_;
  // Over the units before: the least bytes held, held at the end, and of the peak above the held.
  std::vector<int64_t> least_held_, least_total_, least_peak_;
  std::vector<int64_t> longest_gather_ps_;  // of a unit, for the backward pass
  std::set<int> positions_, clock_positions_;
  std::vector<Relaxation> relaxations_;
  std::vector<ClockBound> clock_bounds_;
  std::vector<int> choices_;
  int64_t best_ = INT64_MAX;
  int64_t bound_ = 0;
};

double Searcher::BoundOf(const Relaxation& relaxation, int64_t* excess) const {
  double sum = -relaxation.ps_per_byte * static_cast<double>(problem_.limit_bytes);
  *excess = -problem_.limit_bytes;
  for (int i = 0; i < static_cast<int>(problem_.units.size()); ++i) {
    double least = kInfinite;
    int64_t bytes = 0;
    for (const Alternative& alternative : problem_.units[i]) {
      const int64_t its_bytes = relaxation.BytesOf(alternative, i);
      const double cost = relaxation.CostOf(alternative, i);
      if (cost > least || (cost == least && its_bytes >= bytes)) continue;
      least = cost;
      bytes = its_bytes;
    }
    sum += least;
    *excess += bytes;
  }
  return sum;
}

void Searcher::Maximise(Relaxation& relaxation) const {
  int64_t excess = 0;
  relaxation.ps_per_byte = 0;
  relaxation.bound = BoundOf(relaxation, &excess);
  if (excess <= 0) return;
  // The bound is concave in the multiplier, and its slope is the excess.
  Relaxation low = relaxation, high = relaxation;
  high.ps_per_byte = 1e-3;
  for (int i = 0; i < 60; ++i) {
    high.bound = BoundOf(high, &excess);
    if (excess <= 0) break;
    low = high;
    high.ps_per_byte *= 4;
  }
  for (int i = 0; i < 30; ++i) {
    Relaxation middle = low;
    middle.ps_per_byte = (low.ps_per_byte + high.ps_per_byte) / 2;
    middle.bound = BoundOf(middle, &excess);
    (excess > 0 ? low : high) = middle;
  }
  relaxation = low.bound > high.bound ? low : high;
}

void Searcher::AddRelaxations(int position) {
  if (position < 0 || !positions_.insert(position).second) return;
  const size_t first = relaxations_.size();
  Relaxation best;
  for (int forward = 0; forward <= 4; ++forward) {
    for (int backward = 0; backward <= 4; ++backward) {
      Relaxation at = {.forward = forward / 4.0, .backward = backward / 4.0, .position = position};
      Maximise(at);
      if (at.bound > best.bound) best = at;
      if (forward % 4 == 0 && backward % 4 == 0) relaxations_.push_back(at);
    }
  }
  for (double step = 0.125; step > 0.001; step /= 2) {
    const Relaxation center = best;
    for (const double forward : {-step, 0.0, step}) {
      for (const double backward : {-step, 0.0, step}) {
        Relaxation at = center;
        at.forward = std::clamp(center.forward + forward, 0.0, 1.0);
        at.backward = std::clamp(center.backward + backward, 0.0, 1.0);
        Maximise(at);
        if (at.bound > best.bound) best = at;
      }
    }
  }
  best.AddFrontiers(problem_, std::clamp<size_t>(100'000 / problem_.units.size(), 16, 2048));
  relaxations_.push_back(std::move(best));
  for (size_t i = first; i < relaxations_.size(); ++i) relaxations_[i].AddRest(problem_);
}

double Searcher::BoundOf(const Partial& partial, int first_unit) const {
  int64_t peak = partial.peak_bytes;
  if (first_unit > 0) peak = std::max(peak, partial.growth_bytes + least_peak_[first_unit]);
  const int64_t bytes =
      std::max(partial.held_bytes + least_held_[first_unit] + peak,
               partial.held_bytes + partial.growth_bytes + least_total_[first_unit]);
  if (least_) return static_cast<double>(bytes);
  if (bytes > problem_.limit_bytes) return kInfinite;
  if (first_unit == 0) return static_cast<double>(OutcomeOf(partial).step_ps);
  double bound = 0;
  for (const Relaxation& relaxation : relaxations_) {
    bound = std::max(bound, relaxation.BoundOf(partial, first_unit, problem_.limit_bytes, peak,
                                               longest_gather_ps_[first_unit - 1]));
  }
  for (const ClockBound& clocks : clock_bounds_) {
    bound = std::max(bound, clocks.BoundOf(partial, first_unit, peak));
  }
  return bound * (1 - kRounding);
}

void Searcher::Prune(std::vector<Partial>& partials, int width, double* dropped) const {
  const double threshold = Threshold();
  std::erase_if(partials, [&](const Partial& partial) {
    return partial.bound == kInfinite || partial.bound > threshold;
  });
  std::stable_sort(partials.begin(), partials.end(),
                   [](const Partial& a, const Partial& b) { return a.bound < b.bound; });
  size_t kept = 0;
  for (size_t i = 0; i < partials.size(); ++i) {
    // Bounds are monotone, so only those before can be no worse.
    const auto end = partials.begin() + static_cast<int64_t>(kept);
    if (std::any_of(partials.begin(), end,
                    [&](const Partial& other) { return NoWorse(other, partials[i]); })) {
      continue;
    }
    if (kept == static_cast<size_t>(width)) {
      *dropped = std::min(*dropped, partials[i].bound);
      break;
    }
    partials[kept++] = partials[i];
  }
  partials.resize(kept);
}

bool Searcher::Run(int width) {
  struct Step {
    int parent, choice;
  };
  const int units = static_cast<int>(problem_.units.size());
  std::vector<std::vector<Step>> steps(units);
  std::vector<Partial> partials(1);
  double dropped = kInfinite;
  for (int i = units - 1; i >= 0; --i) {
    std::vector<Partial> next;
    next.reserve(partials.size() * problem_.units[i].size());
    for (size_t parent = 0; parent < partials.size(); ++parent) {
      for (size_t choice = 0; choice < problem_.units[i].size(); ++choice) {
        Partial partial = Extend(partials[parent], problem_.units[i][choice]);
        partial.parent = static_cast<int>(parent);
        partial.choice = static_cast<int>(choice);
        partial.bound = BoundOf(partial, i);
        next.push_back(partial);
      }
    }
    Prune(next, width, &dropped);
    for (const Partial& partial : next) steps[i].push_back({partial.parent, partial.choice});
    partials = std::move(next);
  }
  for (size_t last = 0; last < partials.size(); ++last) {
    const Outcome outcome = OutcomeOf(partials[last]);
    if ((least_ ? outcome.peak_bytes : outcome.step_ps) >= best_) continue;
    std::vector<int> choices(units);
    int at = static_cast<int>(last);
    for (int i = 0; i < units; ++i) {
      choices[i] = steps[i][at].choice;
      at = steps[i][at].parent;
    }
    Offer(choices);
  }
  // All completions of those that were pruned by their bounds are above the threshold.
  const double bound = std::min(dropped, Threshold() + 1);
  if (bound < kInfinite) bound_ = std::max(bound_, static_cast<int64_t>(std::ceil(bound)));
  return dropped == kInfinite || dropped > Threshold();
}

void Searcher::AddClockBound(const Relaxation& relaxation) {
  // The finer the leads, the better the bound, which takes time in proportion.
  const int64_t work = std::max<int64_t>(1, ClockBound::WorkPerLead(problem_));
  const auto leads = [work](int64_t most_work, int64_t most) {
    return static_cast<int>(std::clamp<int64_t>(most_work / work, 32, most));
  };
  Relaxation at = relaxation, best = relaxation;
  best.bound = -kInfinite;
  double low = 0, high = 0;
  for (int i = 0; i < 14; ++i) {
    at.ps_per_byte = i == 0 ? 0 : high == 0 ? std::max(0.1, low * 8) : (low + high) / 2;
    const ClockBound bound(problem_, at, leads(1'000'000, 128));
    at.bound = bound.bound();
    if (at.bound > best.bound) best = at;
    const std::vector<int> choices = bound.Choices();
    Offer(choices);
    int64_t bytes = 0;
    for (int unit = 0; unit < static_cast<int>(choices.size()); ++unit) {
      bytes += at.BytesOf(problem_.units[unit][choices[unit]], unit);
    }
    const bool fits = bytes <= problem_.limit_bytes;
    (fits ? high : low) = at.ps_per_byte;
    if (fits && i == 0) break;
  }
  clock_bounds_.emplace_back(problem_, best, leads(8'000'000, 1024));
}

void Searcher::Improve() {
  for (int sweep = 0; sweep < 3 && !choices_.empty(); ++sweep) {
    const int64_t before = best_;
    std::vector<int> choices = choices_;
    for (size_t i = 0; i < problem_.units.size(); ++i) {
      for (size_t choice = 0; choice < problem_.units[i].size(); ++choice) {
        choices[i] = static_cast<int>(choice);
        Offer(choices);
      }
      choices[i] = choices_[i];
    }
    if (best_ == before) break;
  }
}

void Searcher::RelaxAtPeak() {
  Partial partial;
  int position = -1;
  for (int i = static_cast<int>(choices_.size()) - 1; i >= 0; --i) {
    const int64_t before = partial.peak_bytes;
    partial = Extend(partial, problem_.units[i][choices_[i]]);
    if (partial.peak_bytes > before) position = i;
  }
  AddRelaxations(position);
  for (const Relaxation& relaxation : relaxations_) {
    // One for each place, with the best weights.
    if (!relaxation.frontiers.empty() && clock_positions_.insert(relaxation.position).second) {
      AddClockBound(relaxation);
    }
  }
}

}  // namespace

Outcome Evaluate(const Problem& problem, absl::Span<const int> choices) {
  Partial partial;
  for (size_t i = problem.units.size(); i-- > 0;) {
    partial = Extend(partial, problem.units[i][choices[i]]);
  }
  return OutcomeOf(partial);
}

Solution Solve(const Problem& problem, const Options& options) {
  Searcher fastest(problem, /*least=*/false, options.gap);
  Solution solution;
  fastest.Improve();
  const int widest = std::clamp(100'000 / (static_cast<int>(problem.units.size()) + 1),
                                std::min(32, options.widest), options.widest);
  bool first = true;  // a quick pass, before bounds that take longer
  for (int width = 32;; width *= first ? 1 : 4) {
    const bool last = width >= widest && !first;
    bool proven = fastest.Run(std::min(width, widest));
    if (fastest.choices().empty()) {
      Searcher smallest(problem, /*least=*/true, 0);
      smallest.Run(width);
      solution.least_peak_bytes = smallest.best();
      solution.least_bound_bytes = smallest.bound();
      solution.least_choices = smallest.choices();
      fastest.Offer(smallest.choices());
      if (!fastest.choices().empty()) proven = false;
    }
    fastest.Improve();
    const bool near =
        !fastest.choices().empty() && fastest.best() <= fastest.bound() * (1 + options.gap);
    if (proven || near || last || (options.stop && options.stop())) break;
    fastest.RelaxAtPeak();
    first = false;
  }
  solution.choices = fastest.choices();
  solution.bound_ps = fastest.bound();
  if (solution.found()) solution.outcome = Evaluate(problem, solution.choices);
  return solution;
}

}  // namespace tessera::strategy::search
