#include "strategies/api/search/clock_bound.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::strategy::search {
namespace {

struct Clocks {
  int64_t computation_ps = 0;  // since the unit before
  int64_t lead_ps = 0;         // of the link over it
};

// Returns the clocks after a unit.
Clocks After(int64_t lead_ps, int64_t waiting_ps, const Alternative& unit) {
  const Partial before = {.backward_link_ps = lead_ps, .waiting_ps = waiting_ps};
  const Partial after = Extend(before, unit);
  return {after.backward_ps, after.backward_link_ps - after.backward_ps};
}

}  // namespace

ClockBound::ClockBound(const Problem& problem, const Relaxation& relaxation, int leads)
    : problem_(problem), relaxation_(relaxation), leads_(leads) {
  int rows = 0;
  int64_t longest = 1;
  for (const std::vector<Alternative>& unit : problem.units) {
    rows_.push_back(rows);
    rows += static_cast<int>(unit.size());
    for (const Alternative& alternative : unit) {
      longest = std::max({longest, alternative.backward_ps,
                          alternative.backward_gather_ps + alternative.reduction_ps});
    }
  }
  first_ps_ = -longest;
  step_ps_ = std::max<int64_t>(1, 5 * longest / leads);
  rest_.resize(static_cast<size_t>(rows) * leads);
  for (int i = 0; i < static_cast<int>(problem.units.size()); ++i) {
    for (size_t choice = 0; choice < problem.units[i].size(); ++choice) {
      const int64_t waiting = problem.units[i][choice].reduction_ps;
      for (int lead = 0; lead < leads; ++lead) {
        const int64_t lead_ps = lead == 0 ? kLinkFree : first_ps_ + lead * step_ps_;
        int best = 0;
        rest_[(rows_[i] + choice) * leads + lead] = Least(i, lead_ps, waiting, &best);
      }
    }
  }
  int best = 0;
  bound_ = Least(static_cast<int>(problem.units.size()), 0, 0, &best) -
           relaxation.ps_per_byte * static_cast<double>(problem.limit_bytes);
}

int ClockBound::NumberOf(int64_t lead_ps) const {
  if (lead_ps < first_ps_ + step_ps_) return 0;
  return static_cast<int>(std::min<int64_t>((lead_ps - first_ps_) / step_ps_, leads_ - 1));
}

double ClockBound::Least(int unit, int64_t lead_ps, int64_t waiting_ps, int* choice) const {
  if (unit == 0) {
    const Partial all = {.backward_link_ps = lead_ps, .waiting_ps = waiting_ps};
    return static_cast<double>(BackwardEndOf(all));
  }
  double least = kInfinite;
  const std::vector<Alternative>& alternatives = problem_.units[unit - 1];
  for (int i = 0; i < static_cast<int>(alternatives.size()); ++i) {
    const Alternative& alternative = alternatives[i];
    const Clocks clocks = After(lead_ps, waiting_ps, alternative);
    const double cost =
        static_cast<double>(clocks.computation_ps) + relaxation_.ForwardOf(alternative, unit - 1) +
        relaxation_.ps_per_byte * static_cast<double>(relaxation_.BytesOf(alternative, unit - 1)) +
        rest_[static_cast<size_t>(rows_[unit - 1] + i) * leads_ + NumberOf(clocks.lead_ps)];
    if (cost >= least) continue;
    least = cost;
    *choice = i;
  }
  return least;
}

double ClockBound::BoundOf(const Partial& partial, int first_unit, int64_t peak) const {
  const size_t row = rows_[first_unit] + partial.choice;
  const int lead = NumberOf(partial.backward_link_ps - partial.backward_ps);
  const double forward = std::max<double>(
      partial.forward_ps, Mean(relaxation_.forward, partial.forward_ps, partial.forward_link_ps));
  const int64_t bytes = partial.held_bytes - problem_.limit_bytes +
                        (first_unit > relaxation_.position ? partial.growth_bytes : peak);
  return forward + static_cast<double>(partial.backward_ps) + rest_[row * leads_ + lead] +
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
