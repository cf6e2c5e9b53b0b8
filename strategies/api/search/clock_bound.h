// A bound for the search (search.h) that follows the clocks of the backward pass.
#ifndef TESSERA_STRATEGIES_API_SEARCH_CLOCK_BOUND_H_
#define TESSERA_STRATEGIES_API_SEARCH_CLOCK_BOUND_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "strategies/api/search/relaxation.h"
#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

// Relaxes the limit and the forward pass as a Relaxation does, but not the order of the backward
// pass: the least cost of the units before one is computed for each lead that the link can have
// over the computation. So what waits for the link in the middle of a pass is part of the bound.
//
// As a function of the lead, the least cost grows by 0 or 1 ps a ps: either computation waits for
// the link, or it does not. So between two leads of the table it is at least the cost at the lower
// one, and at least the cost at the upper one less the difference of the leads. Beyond the table it
// grows by 1 ps a ps. The longer the lead, the coarser the
// table: where computation waits for the link for long, the cost grows by 1 ps a ps, so that
// nothing is lost between two leads. Thread safety: const methods may be called by any thread.
class ClockBound {
 public:
  // Weights, position and multiplier are those of the relaxation. The table has at most so many
  // leads (at least 6), and takes time in proportion to them.
  ClockBound(const Problem& problem, const Relaxation& relaxation, int leads);

  // Returns in proportion to what the constructor takes time, for each lead.
  static int64_t WorkPerLead(const Problem& problem);

  // Returns a bound of the time of all steps.
  double bound() const { return bound_; }
  // Returns a bound for the completions of a partial choice whose first unit this is (above 0).
  double BoundOf(const Partial& partial, int first_unit) const;
  // Returns the choices that the bound rests on. They may not meet the limit.
  std::vector<int> Choices() const;

 private:
  // Returns a bound of the least cost of the units before the one of this row.
  double RestOf(int row, int64_t lead_ps) const;
  // Returns the least cost of the units before `unit`, if the link has this lead and then the
  // reduction of `unit`, and sets the choice for the unit before if `choice` is not null.
  double Least(int unit, int64_t lead_ps, int64_t waiting_ps, int* choice) const;

  // Returns the lead with this number in the table, and the number of the last lead that is at most
  // this one (which is at least the lowest).
  int64_t LeadOf(int number) const;
  int NumberOf(int64_t lead_ps) const;

  // Returns the least cost as Least does, less the lead, for leads so long that computation waits
  // for the next gather in any case. For shorter ones it is more.
  double LeastBehind(int unit, int64_t waiting_ps) const;

  const Problem& problem_;
  const Relaxation relaxation_;
  // The table begins with 2^log_finest_ leads in steps of 2^shift_ ps. From there on, there are
  // half as many in each octave, in steps that are twice as long as in the one before. The lowest
  // lead stands for all below: a gather is done in time.
  int log_finest_ = 1;
  int leads_ = 0;
  int64_t lowest_ps_ = 0;
  int shift_ = 0;
  // A unit's alternatives begin at first_[unit]. Those with equal reductions have the same row.
  std::vector<int> first_, rows_;
  std::vector<double> costs_;  // of alternatives, without the backward pass
  int row_count_ = 0;
  std::vector<double> rest_;    // [rows, leads]
  std::vector<double> behind_;  // [rows]: LeastBehind
  double bound_ = 0;
};

// Returns the bound with a multiplier that is near the best one for the weights and the position of
// a relaxation: further evaluations are not expected to raise it by a share of `precision`. Calls
// `offer` with choices on the way, which often are near the best ones. They may not meet the limit.
ClockBound BestClockBound(const Problem& problem, const Relaxation& relaxation, double precision,
                          const std::function<void(const std::vector<int>&)>& offer);

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_CLOCK_BOUND_H_
