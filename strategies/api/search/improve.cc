// The second half of a search for Plans: changes of what the model proposed.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "strategies/api/search/plan_search.h"

namespace tessera::strategy::search {
namespace {

constexpr int kMostLowerings = 500;
constexpr double kAll = 250;      // of so many Plans in a space, all are lowered
constexpr size_t kPatience = 60;  // Plans without a better one, beyond the changes of one choice

}  // namespace

const Candidate* PlanSearch::KnownOf(const Plan& plan, TesseraContext* other) const {
  const auto known = known_.find({other, plan.SerializeAsString()});
  const bool is_known = known != known_.end() && known->second.search == search_;
  return is_known && known->second.lowered.ok() ? *known->second.lowered : nullptr;
}

const Candidate* PlanSearch::SketchOf(int space, const std::vector<int>& choices) const {
  const Space& of = spaces_[space];
  return of.sketch == nullptr ? KnownOf(of.plan(choices), nullptr)
                              : KnownOf(of.sketch(choices), of.sketch_context);
}

std::vector<PlanSearch::Change> PlanSearch::SingleChanges(const Candidate& candidate) const {
  const Space& space = spaces_[candidate.space];
  std::vector<int> choices = candidate.choices;
  std::vector<Change> changes;
  for (size_t i = 0; i < choices.size(); ++i) {
    for (size_t k = 0; k < space.problem.units[i].size(); ++k) {
      choices[i] = static_cast<int>(k);
      if (choices[i] == candidate.choices[i]) continue;
      const Outcome outcome = Evaluate(space.problem, choices);
      changes.push_back({outcome.peak_bytes, space.SecondsOf(outcome.step_ps), choices});
    }
    choices[i] = candidate.choices[i];
  }
  const int64_t limit = space.problem.limit_bytes;
  const bool any_fits = best() != nullptr;
  absl::c_stable_sort(changes, [any_fits, limit](const Change& a, const Change& b) {
    if (!any_fits) return a.peak_bytes < b.peak_bytes;
    return std::pair(a.peak_bytes > limit, a.seconds) < std::pair(b.peak_bytes > limit, b.seconds);
  });
  return changes;
}

std::vector<PlanSearch::Change> PlanSearch::ForcedChanges(const Candidate& candidate) const {
  const Space& space = spaces_[candidate.space];
  std::vector<Change> changes;
  for (size_t i = 0; i < candidate.choices.size(); ++i) {
    const std::vector<Alternative>& alternatives = space.problem.units[i];
    for (size_t k = 0; k < alternatives.size(); ++k) {
      if (static_cast<int>(k) == candidate.choices[i] || host_.cancelled()) continue;
      Problem forced = space.problem;
      forced.units[i] = {alternatives[k]};
      const Solution solution =
          Solve(forced, {.gap = kGap, .stop = [this] { return host_.cancelled(); }});
      if (!solution.found()) continue;
      std::vector<int> choices = solution.choices;
      choices[i] = static_cast<int>(k);
      const Outcome outcome = Evaluate(space.problem, choices);
      changes.push_back({outcome.peak_bytes, space.SecondsOf(outcome.step_ps), std::move(choices)});
    }
  }
  absl::c_stable_sort(changes,
                      [](const Change& a, const Change& b) { return a.seconds < b.seconds; });
  return changes;
}

std::vector<PlanSearch::Change> PlanSearch::JointChanges(const Candidate& candidate) const {
  constexpr double kSlower = 0.02;
  constexpr size_t kMostOfThree = 100;  // changes of one choice, so that three are made together
  // A change of one choice, and what it does.
  struct Single {
    size_t unit;
    int choice;
    double seconds;
    int64_t bytes;
  };
  const Candidate* const now = SketchOf(candidate.space, candidate.choices);
  if (now == nullptr) return {};
  std::vector<Single> singles;
  for (const Change& change : SingleChanges(candidate)) {
    const Candidate* const known = SketchOf(candidate.space, change.choices);
    if (known == nullptr) continue;
    const auto [was, is] = absl::c_mismatch(candidate.choices, change.choices);
    singles.push_back({static_cast<size_t>(was - candidate.choices.begin()), *is,
                       known->cost.step_seconds() - now->cost.step_seconds(),
                       known->cost.peak_bytes() - now->cost.peak_bytes()});
  }
  absl::c_sort(singles, [](const Single& a, const Single& b) { return a.unit < b.unit; });
  // They may exceed the time of the best one, if there is one, because changes overlap.
  double most_seconds = std::numeric_limits<double>::infinity();
  if (best() != nullptr) {
    const double share =
        (1 + kSlower) * best()->cost.step_seconds() / candidate.cost.step_seconds();
    most_seconds = (share - 1) * now->cost.step_seconds();
  }
  std::vector<Change> changes;
  const auto add = [&](std::initializer_list<const Single*> joint) {
    Change change = {candidate.cost.peak_bytes(), 0, candidate.choices};
    for (const Single* const single : joint) {
      change.seconds += single->seconds;
      change.peak_bytes += single->bytes;
      change.choices[single->unit] = single->choice;
    }
    if (change.peak_bytes <= limit_ && change.seconds < most_seconds) {
      changes.push_back(std::move(change));
    }
  };
  const bool of_three = singles.size() <= kMostOfThree;
  for (const Single& a : singles) {
    for (const Single& b : singles) {
      if (b.unit <= a.unit) continue;
      add({&a, &b});
      for (const Single& c : singles) {
        if (of_three && c.unit > b.unit) add({&a, &b, &c});
      }
    }
  }
  absl::c_stable_sort(changes,
                      [](const Change& a, const Change& b) { return a.seconds < b.seconds; });
  return changes;
}

absl::Status PlanSearch::TryChanges(const Candidate& fastest, absl::Span<const Change> changes) {
  const Space& space = spaces_[fastest.space];
  const auto& plan_of = space.sketch == nullptr ? space.plan : space.sketch;
  std::vector<Plan> plans;
  for (const Change& change : changes) plans.push_back(plan_of(change.choices));
  RETURN_IF_ERROR(Prepare(plans, space.sketch_context));
  ASSIGN_OR_RETURN(const Candidate* const sketched, Sketch(fastest.space, fastest.choices));
  for (const Change& change : changes) {
    const auto sketch = Sketch(fastest.space, change.choices);
    if (absl::IsInvalidArgument(sketch.status())) continue;
    RETURN_IF_ERROR(sketch.status());
    if (space.sketch == nullptr) continue;
    const StepCost& cost = (*sketch)->cost;
    if (cost.peak_bytes() + beyond_sketch_[fastest.space] > limit_ ||
        cost.step_seconds() >= sketched->cost.step_seconds()) {
      continue;
    }
    RETURN_IF_ERROR(LowerChoices(fastest.space, change.choices).status());
  }
  return absl::OkStatus();
}

absl::Status PlanSearch::TryInOrder(const Candidate& now, absl::Span<const Change> changes,
                                    bool until_better) {
  constexpr size_t kTogether = 4;
  const Candidate* best = BestOf(now.space);
  while (!changes.empty() && asked_ < std::min(most_lowered_, give_up_at_) && !host_.cancelled()) {
    const size_t count = std::min({kTogether, most_lowered_ - asked_, changes.size()});
    RETURN_IF_ERROR(TryChanges(now, changes.first(count)));
    changes.remove_prefix(count);
    if (BestOf(now.space) == best) continue;
    best = BestOf(now.space);
    give_up_at_ = asked_ + patience_;
    if (until_better) break;
  }
  Report();
  return absl::OkStatus();
}

absl::Status PlanSearch::TryAll(const Candidate& now) {
  const std::vector<std::vector<Alternative>>& units = spaces_[now.space].problem.units;
  std::vector<Change> all;
  std::vector<int> choices(units.size(), 0);
  for (size_t i = 0; i < units.size();) {
    all.push_back({0, 0, choices});
    for (i = 0; i < units.size() && ++choices[i] == static_cast<int>(units[i].size()); ++i) {
      choices[i] = 0;
    }
  }
  patience_ = most_lowered_;
  give_up_at_ = most_lowered_;
  return TryInOrder(now, all);
}

std::vector<const Candidate*> PlanSearch::KnownStarts(int space) const {
  constexpr double kSlower = 1.3;
  std::vector<const Candidate*> starts;
  for (const std::vector<int>& choices : KnownAsBest(space)) {
    const Candidate* const known = KnownOf(spaces_[space].plan(choices), nullptr);
    if (known != nullptr && IsNear(*known, kSlower)) starts.push_back(known);
  }
  absl::c_stable_sort(
      starts, [this](const Candidate* a, const Candidate* b) { return Order(*a) < Order(*b); });
  return starts;
}

absl::Status PlanSearch::ImproveSpace(int space) {
  const Candidate* const first = BestOf(space);
  // All changes of one choice, and some others.
  patience_ = kPatience;
  for (const auto& alternatives : spaces_[space].problem.units) {
    patience_ += alternatives.size() - 1;
  }
  absl::flat_hash_set<const Candidate*> tried;
  RETURN_IF_ERROR(ImproveFromBest(space, /*may_exceed=*/false, tried));
  // The others, and Plans that treat all units alike, are in parts of the space that changes of a
  // few choices do not reach.
  for (const Candidate* const each : {BestOf(space), first}) {
    give_up_at_ = asked_ + patience_;
    if (give_up_at_ <= most_lowered_) RETURN_IF_ERROR(TryInOrder(*each, ForcedChanges(*each)));
  }
  for (const Candidate* const start : KnownStarts(space)) {
    give_up_at_ = asked_ + patience_;
    RETURN_IF_ERROR(TryInOrder(*start, SingleChanges(*start)));
  }
  // A faster Plan that exceeds the limit a little may need one more change.
  return ImproveFromBest(space, /*may_exceed=*/true, tried);
}

bool PlanSearch::IsBetter(const Candidate& a, const Candidate& b) const {
  constexpr double kPicosecond = 1e-12;
  const auto order_a = Order(a), order_b = Order(b);
  const bool alike =
      order_a.first == order_b.first && std::abs(order_a.second - order_b.second) < kPicosecond;
  if (!alike) return order_a < order_b;
  return std::pair(a.cost.computation_seconds(), a.cost.peak_bytes()) <
         std::pair(b.cost.computation_seconds(), b.cost.peak_bytes());
}

bool PlanSearch::IsBetterStart(const Candidate& a, const Candidate& b, bool may_exceed) const {
  if (best() == nullptr || !may_exceed) return Order(a) < Order(b);
  const auto cost = [this](const Candidate& candidate) {
    const auto [excess, seconds] = Order(candidate);
    return seconds * (1 + static_cast<double>(excess) / static_cast<double>(limit_));
  };
  return cost(a) < cost(b);
}

// From the best candidate that was not tried, and from others that are nearly as good.
absl::Status PlanSearch::ImproveFromBest(int space, bool may_exceed,
                                         absl::flat_hash_set<const Candidate*>& tried) {
  constexpr size_t kStarts = 12;
  const size_t most_tried = tried.size() + kStarts;
  give_up_at_ = asked_ + patience_;
  while (asked_ < std::min(most_lowered_, give_up_at_) && tried.size() < most_tried &&
         !host_.cancelled()) {
    const Candidate* now = nullptr;
    for (const Candidate* const candidate : candidates_) {
      if (candidate->space != space || tried.contains(candidate) || !IsNear(*candidate)) continue;
      if (now == nullptr || IsBetterStart(*candidate, *now, may_exceed)) now = candidate;
    }
    if (now == nullptr) break;
    tried.insert(now);
    const Candidate* const best = BestOf(space);
    RETURN_IF_ERROR(TryInOrder(*now, SingleChanges(*now)));
    if (BestOf(space) != best) continue;
    RETURN_IF_ERROR(TryInOrder(*now, JointChanges(*now), /*until_better=*/true));
  }
  return absl::OkStatus();
}

// The best space first; then those that may become better.
absl::Status PlanSearch::Improve() {
  std::vector<const Candidate*> starts;
  for (int i = 0; i < static_cast<int>(spaces_.size()); ++i) {
    const Candidate* const start = BestOf(i);
    if (start != nullptr && IsNear(*start)) starts.push_back(start);
  }
  if (starts.empty()) return absl::OkStatus();
  absl::c_stable_sort(
      starts, [this](const Candidate* a, const Candidate* b) { return Order(*a) < Order(*b); });
  ASSIGN_OR_RETURN(const int lowerings, MostLowerings(spaces_[starts.front()->space].repetitions));
  most_lowered_ = asked_ + lowerings;
  for (const Candidate* const start : starts) {
    if (asked_ >= most_lowered_) break;
    const std::vector<std::vector<Alternative>>& units = spaces_[start->space].problem.units;
    double plans = 1;
    for (const auto& alternatives : units) plans *= static_cast<double>(alternatives.size());
    const bool all = plans <= std::min(kAll, static_cast<double>(most_lowered_ - asked_));
    RETURN_IF_ERROR(all ? TryAll(*start) : ImproveSpace(start->space));
  }
  return absl::OkStatus();
}

bool PlanSearch::IsNearLimit(const Candidate& candidate) const {
  constexpr int64_t kNear = 50;  // by a part in so many
  return candidate.cost.peak_bytes() - limit_ <= limit_ / kNear;
}

bool PlanSearch::IsNear(const Candidate& candidate, double slower) const {
  const Candidate* const fastest = best();
  const bool is_fast =
      fastest == nullptr || candidate.cost.step_seconds() <= slower * fastest->cost.step_seconds();
  return is_fast && IsNearLimit(candidate);
}

absl::StatusOr<bool> PlanSearch::IsLarge() {
  constexpr int kFew = 10;
  ASSIGN_OR_RETURN(const int most, MostLowerings(1));
  return most < kFew;
}

absl::StatusOr<int> PlanSearch::MostLowerings(int64_t micro_batches) {
  if (operators_ == 0) {
    ASSIGN_OR_RETURN(const RunGraphs graphs, host_.Graphs(context_));
    operators_ = 1;
    for (const GraphProto& graph : graphs.graphs()) {
      operators_ = std::max<double>(operators_, graph.ops_size());
    }
  }
  const double operators = operators_ * static_cast<double>(micro_batches);
  // The time of one, and how close the model is, both grow with the operators.
  return static_cast<int>(std::clamp(3e8 / operators / operators, 3., 1. * kMostLowerings));
}

}  // namespace tessera::strategy::search
