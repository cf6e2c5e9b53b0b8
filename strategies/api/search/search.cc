#include "strategies/api/search/search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "strategies/api/search/clock_bound.h"
#include "strategies/api/search/kept.h"
#include "strategies/api/search/relaxation.h"

namespace tessera::strategy::search {
namespace {

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
  // Extends by a unit, and bounds all completions.
  Partial Next(const Partial& later, int unit, int choice) const;
  // Sorts by bound, and keeps those that may lead to the best choice.
  void Prune(std::vector<Partial>& partials, int width, double* dropped) const;
  void RaiseBound(double bound) {
    bound_ = std::max(bound_, static_cast<int64_t>(std::ceil(bound)));
  }
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
      // Where bytes cost nothing, places do not differ.
      if (forward % 4 == 0 && backward % 4 == 0 && (at.ps_per_byte > 0 || positions_.size() == 1)) {
        relaxations_.push_back(at);
      }
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
  const int64_t bytes = std::max(partial.peak_bytes + least_held_[first_unit],
                                 partial.end_bytes + least_total_[first_unit]);
  if (least_) return static_cast<double>(bytes);
  if (bytes > problem_.limit_bytes) return kInfinite;
  if (first_unit == 0) return static_cast<double>(OutcomeOf(partial).step_ps);
  double bound = 0;
  for (const ClockBound& clocks : clock_bounds_) {
    bound = std::max(bound, clocks.BoundOf(partial, first_unit));
  }
  const double enough = Threshold() * (1 + 2 * kRounding);
  for (const Relaxation& relaxation : relaxations_) {
    if (bound > enough) break;
    bound = std::max(bound, relaxation.BoundOf(partial, first_unit, problem_.limit_bytes,
                                               longest_gather_ps_[first_unit - 1]));
  }
  return bound * (1 - kRounding);
}

Partial Searcher::Next(const Partial& later, int unit, int choice) const {
  Partial next = Extend(later, problem_.units[unit][choice]);
  next.choice = choice;
  if (unit > 0) {
    // A lower peak than the other units', or a link that is free before it is of use, is no help.
    // So more partial choices are comparable.
    next.peak_bytes = std::max(next.peak_bytes, next.end_bytes + least_peak_[unit]);
    next.forward_link_ps = std::max(next.forward_link_ps, next.forward_ps);
    if (next.waiting_ps > 0) {
      next.backward_link_ps =
          std::max(next.backward_link_ps, next.backward_ps - longest_gather_ps_[unit - 1]);
    }
  }
  next.bound = BoundOf(next, unit);
  return next;
}

void Searcher::Prune(std::vector<Partial>& partials, int width, double* dropped) const {
  const double threshold = Threshold();
  std::erase_if(partials, [&](const Partial& partial) {
    return partial.bound == kInfinite || partial.bound > threshold;
  });
  std::stable_sort(partials.begin(), partials.end(),
                   [](const Partial& a, const Partial& b) { return a.bound < b.bound; });
  Kept kept(least_);
  for (const Partial& partial : partials) {
    if (kept.HasNoWorse(partial)) continue;
    if (kept.size() == static_cast<size_t>(width)) {
      *dropped = std::min(*dropped, partial.bound);
      break;
    }
    kept.Add(partial);
  }
  partials = kept.Take();
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
        next.push_back(Next(partials[parent], i, static_cast<int>(choice)));
        next.back().parent = static_cast<int>(parent);
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
  if (bound < kInfinite) RaiseBound(bound);
  return dropped == kInfinite || dropped > Threshold();
}

void Searcher::AddClockBound(const Relaxation& relaxation) {
  clock_bounds_.push_back(
      BestClockBound(problem_, relaxation, gap_ / 16,
                     [this](const std::vector<int>& choices) { Offer(choices); }));
  RaiseBound(clock_bounds_.back().bound() * (1 - kRounding));
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
    const Alternative& unit = problem_.units[i][choices_[i]];
    const int64_t before = partial.peak_bytes + unit.held_bytes;
    partial = Extend(partial, unit);
    if (partial.peak_bytes > before) position = i;
  }
  AddRelaxations(position);
  // One for each place, with the best weights. If the limit costs time at a place, those where it
  // does not are of no use.
  double costliest = 0;
  for (const Relaxation& relaxation : relaxations_) {
    if (!relaxation.frontiers.empty()) costliest = std::max(costliest, relaxation.ps_per_byte);
  }
  for (const Relaxation& relaxation : relaxations_) {
    if (relaxation.frontiers.empty() || (relaxation.ps_per_byte == 0 && costliest > 0)) continue;
    if (clock_positions_.insert(relaxation.position).second) AddClockBound(relaxation);
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
  const auto near = [&] {
    return !fastest.choices().empty() && fastest.best() <= fastest.bound() * (1 + options.gap);
  };
  for (int width = 32;; width *= first ? 1 : 8) {
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
    if (proven || near() || last || (options.stop && options.stop())) break;
    fastest.RelaxAtPeak();
    if (near()) break;
    first = false;
  }
  solution.choices = fastest.choices();
  solution.bound_ps = fastest.bound();
  if (solution.found()) solution.outcome = Evaluate(problem, solution.choices);
  return solution;
}

}  // namespace tessera::strategy::search
