#include "strategies/api/search/clock_bound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace tessera::strategy::search {
namespace {

// The finest leads go up to so many times the longest use of the link by a unit, and so many
// octaves follow.
constexpr int64_t kLinks = 4;
constexpr int kOctaves = 4;

constexpr int kEvaluations = 8;  // of multipliers, at most

struct Clocks {
  int64_t computation_ps = 0;  // since the unit before
  int64_t lead_ps = 0;         // of the link over it
};

// Returns the clocks after a unit, as Extend does.
Clocks After(int64_t lead_ps, int64_t waiting_ps, const Alternative& unit) {
  int64_t link_ps = lead_ps + unit.backward_gather_ps;
  const int64_t start_ps = unit.backward_gather_ps > 0 ? std::max<int64_t>(0, link_ps) : 0;
  if (waiting_ps > 0) link_ps = std::max<int64_t>(0, link_ps) + waiting_ps;
  const int64_t end_ps = start_ps + unit.backward_ps;
  return {end_ps, link_ps - end_ps};
}

// A multiplier that was evaluated.
struct Evaluation {
  double ps_per_byte = 0;
  double bound = -kInfinite;
  int64_t excess = 0;        // bytes of the choices above the limit: about the slope of the bound
  std::vector<int> choices;  // empty: not evaluated yet
};

Evaluation Evaluated(const Problem& problem, const Relaxation& relaxation, int leads) {
  const ClockBound clocks(problem, relaxation, leads);
  Evaluation evaluation = {relaxation.ps_per_byte, clocks.bound(), -problem.limit_bytes,
                           clocks.Choices()};
  for (int unit = 0; unit < static_cast<int>(problem.units.size()); ++unit) {
    evaluation.excess += relaxation.BytesOf(problem.units[unit][evaluation.choices[unit]], unit);
  }
  return evaluation;
}

// Offers the choices of the first for some units, and those of the second for the others.
void OfferMixes(const Evaluation& first, const Evaluation& second,
                const std::function<void(const std::vector<int>&)>& offer) {
  const size_t units = std::min(first.choices.size(), second.choices.size());
  for (const bool in_reverse : {false, true}) {
    std::vector<int> mixed = second.choices;
    for (size_t i = 0; i < units; ++i) {
      const size_t unit = in_reverse ? units - 1 - i : i;
      if (mixed[unit] == first.choices[unit]) continue;
      mixed[unit] = first.choices[unit];
      offer(mixed);
    }
  }
}

}  // namespace

int64_t ClockBound::WorkPerLead(const Problem& problem) {
  int64_t work = 0;
  for (size_t i = 1; i < problem.units.size(); ++i) {
    std::set<int64_t> reductions;
    for (const Alternative& unit : problem.units[i]) reductions.insert(unit.reduction_ps);
    work += static_cast<int64_t>(reductions.size() * problem.units[i - 1].size());
  }
  return work;
}

ClockBound::ClockBound(const Problem& problem, const Relaxation& relaxation, int leads)
    : problem_(problem), relaxation_(relaxation) {
  int64_t gather = 1, link = 1;
  for (int i = 0; i < static_cast<int>(problem.units.size()); ++i) {
    first_.push_back(static_cast<int>(rows_.size()));
    std::vector<int64_t> reductions;  // of rows
    for (const Alternative& unit : problem.units[i]) {
      gather = std::max(gather, unit.backward_gather_ps);
      link = std::max(link, unit.backward_gather_ps + unit.reduction_ps);
      costs_.push_back(relaxation.ForwardOf(unit, i) +
                       relaxation.ps_per_byte * static_cast<double>(relaxation.BytesOf(unit, i)));
      const auto row = std::find(reductions.begin(), reductions.end(), unit.reduction_ps);
      rows_.push_back(row_count_ + static_cast<int>(row - reductions.begin()));
      if (row == reductions.end()) reductions.push_back(unit.reduction_ps);
    }
    row_count_ += static_cast<int>(reductions.size());
  }
  lowest_ps_ = -gather;
  while ((2 << log_finest_) * (2 + kOctaves) / 2 <= leads) ++log_finest_;
  leads_ = (1 << log_finest_) * (2 + kOctaves) / 2;
  while ((int64_t{1} << (log_finest_ + shift_)) < gather + kLinks * link) ++shift_;
  rest_.resize(static_cast<size_t>(row_count_) * leads_);
  int filled = 0;  // rows
  for (int i = 0; i < static_cast<int>(problem.units.size()); ++i) {
    for (size_t choice = 0; choice < problem.units[i].size(); ++choice) {
      if (rows_[first_[i] + choice] < filled) continue;
      const int64_t waiting = problem.units[i][choice].reduction_ps;
      behind_.push_back(LeastBehind(i, waiting));
      double* const row = &rest_[static_cast<size_t>(filled++) * leads_];
      for (int lead = 0; lead < leads_; ++lead) {
        row[lead] = Least(i, LeadOf(lead), waiting, nullptr);
      }
    }
  }
  bound_ = Least(static_cast<int>(problem.units.size()), 0, 0, nullptr) -
           relaxation.ps_per_byte * static_cast<double>(problem.limit_bytes);
}

int64_t ClockBound::LeadOf(int number) const {
  const int half = 1 << (log_finest_ - 1);
  const int octave = std::max(0, number / half - 1);
  return lowest_ps_ + (static_cast<int64_t>(number - octave * half) << (octave + shift_));
}

int ClockBound::NumberOf(int64_t lead_ps) const {
  const int64_t steps = (lead_ps - lowest_ps_) >> shift_;
  const int octave =
      std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(steps))) - log_finest_);
  if (octave > kOctaves) return leads_ - 1;
  return (octave << (log_finest_ - 1)) + static_cast<int>(steps >> octave);
}

double ClockBound::RestOf(int row, int64_t lead_ps) const {
  const double* const rest = &rest_[static_cast<size_t>(row) * leads_];
  if (lead_ps <= lowest_ps_) return rest[0];
  const int number = NumberOf(lead_ps);
  if (number == leads_ - 1) {
    return std::max(rest[number], behind_[row] + static_cast<double>(lead_ps));
  }
  return std::max(rest[number],
                  rest[number + 1] - static_cast<double>(LeadOf(number + 1) - lead_ps));
}

double ClockBound::Least(int unit, int64_t lead_ps, int64_t waiting_ps, int* choice) const {
  if (unit == 0) {
    const Partial all = {.backward_link_ps = lead_ps, .waiting_ps = waiting_ps};
    return static_cast<double>(BackwardEndOf(all));
  }
  double least = kInfinite;
  const std::vector<Alternative>& alternatives = problem_.units[unit - 1];
  for (int i = 0; i < static_cast<int>(alternatives.size()); ++i) {
    const int at = first_[unit - 1] + i;
    const Clocks clocks = After(lead_ps, waiting_ps, alternatives[i]);
    const double cost =
        static_cast<double>(clocks.computation_ps) + costs_[at] + RestOf(rows_[at], clocks.lead_ps);
    if (cost >= least) continue;
    least = cost;
    if (choice != nullptr) *choice = i;
  }
  return least;
}

double ClockBound::LeastBehind(int unit, int64_t waiting_ps) const {
  if (unit == 0) return static_cast<double>(waiting_ps);
  double least = kInfinite;
  for (size_t i = 0; i < problem_.units[unit - 1].size(); ++i) {
    const Alternative& alternative = problem_.units[unit - 1][i];
    const int at = first_[unit - 1] + static_cast<int>(i);
    double cost = costs_[at];
    if (alternative.backward_gather_ps > 0) {  // computation waits for it, and has caught up
      cost += static_cast<double>(alternative.backward_gather_ps + alternative.backward_ps) +
              RestOf(rows_[at], waiting_ps - alternative.backward_ps);
    } else {
      cost += static_cast<double>(waiting_ps) + behind_[rows_[at]];
    }
    least = std::min(least, cost);
  }
  return least;
}

double ClockBound::BoundOf(const Partial& partial, int first_unit) const {
  const int row = rows_[first_[first_unit] + partial.choice];
  const int64_t lead_ps = partial.backward_link_ps - partial.backward_ps;
  const double forward = std::max<double>(
      partial.forward_ps, Mean(relaxation_.forward, partial.forward_ps, partial.forward_link_ps));
  const int64_t bytes =
      (first_unit > relaxation_.position ? partial.end_bytes : partial.peak_bytes) -
      problem_.limit_bytes;
  return forward + static_cast<double>(partial.backward_ps) + RestOf(row, lead_ps) +
         relaxation_.ps_per_byte * static_cast<double>(bytes);
}

std::vector<int> ClockBound::Choices() const {
  std::vector<int> choices(problem_.units.size());
  int64_t lead_ps = 0, waiting_ps = 0;
  for (int unit = static_cast<int>(choices.size()); unit-- > 0;) {
    Least(unit + 1, lead_ps, waiting_ps, &choices[unit]);
    const Alternative& chosen = problem_.units[unit][choices[unit]];
    lead_ps = After(lead_ps, waiting_ps, chosen).lead_ps;
    waiting_ps = chosen.reduction_ps;
  }
  return choices;
}

ClockBound BestClockBound(const Problem& problem, const Relaxation& relaxation, double precision,
                          const std::function<void(const std::vector<int>&)>& offer) {
  const int64_t work = std::max<int64_t>(1, ClockBound::WorkPerLead(problem));
  const auto leads = [work](int64_t most_work, int64_t most) {
    return static_cast<int>(std::clamp<int64_t>(most_work / work, 48, most));
  };
  Relaxation at = relaxation;
  Evaluation low, high, best;  // `low` takes too many bytes, `high` does not
  double width = 0.1;
  for (int i = 0; i < kEvaluations; ++i) {
    Evaluation now = Evaluated(problem, at, leads(2'000'000, 96));
    offer(now.choices);
    if (now.bound > best.bound) best = now;
    (now.excess > 0 ? low : high) = std::move(now);
    if (low.choices.empty() || high.choices.empty()) {
      if (low.choices.empty() && high.ps_per_byte == 0) break;
      const double step = width * std::max(1.0, relaxation.ps_per_byte);
      at.ps_per_byte = low.choices.empty() ? std::max(0.0, relaxation.ps_per_byte - step)
                                           : relaxation.ps_per_byte + step;
      width *= 4;
      continue;
    }
    // The bound is about concave: it is below both tangents.
    const double difference = high.ps_per_byte - low.ps_per_byte;
    const double slope_low = static_cast<double>(low.excess);
    const double slope_high = static_cast<double>(high.excess);
    const double meet =
        (high.bound - low.bound - slope_high * difference) / (slope_low - slope_high);
    if (low.bound + slope_low * meet <= best.bound + precision * std::abs(best.bound)) break;
    at.ps_per_byte =
        low.ps_per_byte + std::clamp(meet, difference / 8, difference - difference / 8);
  }
  OfferMixes(low, high, offer);
  at.ps_per_byte = best.ps_per_byte;
  return {problem, at, leads(8'000'000, 384)};
}

}  // namespace tessera::strategy::search
