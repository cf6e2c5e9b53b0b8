#include "strategies/api/search/clock_bound.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace tessera::strategy::search {
namespace {

// The leads go up to so many times the longest use of the link by a unit.
constexpr int64_t kLinks = 4;

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
    : problem_(problem), relaxation_(relaxation), leads_(leads) {
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
  while ((int64_t{leads - 1} << shift_) < gather + kLinks * link) ++shift_;
  rest_.resize(static_cast<size_t>(row_count_) * leads);
  int filled = 0;  // rows
  for (int i = 0; i < static_cast<int>(problem.units.size()); ++i) {
    for (size_t choice = 0; choice < problem.units[i].size(); ++choice) {
      if (rows_[first_[i] + choice] < filled) continue;
      const int64_t waiting = problem.units[i][choice].reduction_ps;
      double* const row = &rest_[static_cast<size_t>(filled++) * leads];
      for (int lead = 0; lead < leads; ++lead) {
        row[lead] = Least(i, lowest_ps_ + (int64_t{lead} << shift_), waiting, nullptr);
      }
    }
  }
  bound_ = Least(static_cast<int>(problem.units.size()), 0, 0, nullptr) -
           relaxation.ps_per_byte * static_cast<double>(problem.limit_bytes);
}

double ClockBound::RestOf(int row, int64_t lead_ps) const {
  const double* const rest = &rest_[static_cast<size_t>(row) * leads_];
  if (lead_ps <= lowest_ps_) return rest[0];
  const int64_t number = (lead_ps - lowest_ps_) >> shift_;
  if (number >= leads_ - 1) return rest[leads_ - 1];
  const int64_t next_ps = lowest_ps_ + ((number + 1) << shift_);
  return std::max(rest[number], rest[number + 1] - static_cast<double>(next_ps - lead_ps));
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

double ClockBound::BoundOf(const Partial& partial, int first_unit, int64_t peak) const {
  const int row = rows_[first_[first_unit] + partial.choice];
  const int64_t lead_ps = partial.backward_link_ps - partial.backward_ps;
  const double forward = std::max<double>(
      partial.forward_ps, Mean(relaxation_.forward, partial.forward_ps, partial.forward_link_ps));
  const int64_t bytes = partial.held_bytes - problem_.limit_bytes +
                        (first_unit > relaxation_.position ? partial.growth_bytes : peak);
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

}  // namespace tessera::strategy::search
