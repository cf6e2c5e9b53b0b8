// A bound for the search (search.h) that follows the clocks of the backward pass.
#ifndef TESSERA_STRATEGIES_API_SEARCH_CLOCK_BOUND_H_
#define TESSERA_STRATEGIES_API_SEARCH_CLOCK_BOUND_H_

#include <cstdint>
#include <vector>

#include "strategies/api/search/relaxation.h"
#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

// Relaxes the limit and the forward pass as a Relaxation does, but not the order of the backward
// pass: the least cost of the units before one is computed for each lead that the link can have
// over the computation, rounded so that it stays a bound. So what waits for the link in the middle
// of a pass is part of the bound. Thread safety: const methods may be called by any thread.
class ClockBound {
 public:
  // Weights, position and multiplier are those of the relaxation. Takes time in proportion to the
  // number of units, the square of their alternatives, and `leads`.
  ClockBound(const Problem& problem, const Relaxation& relaxation, int leads);

  // Returns a bound of the time of all steps.
  double bound() const { return bound_; }
  // Returns a bound for the completions of a partial choice whose first unit this is (above 0).
  double BoundOf(const Partial& partial, int first_unit, int64_t peak) const;
  // Returns the choices that the bound rests on. They may not meet the limit.
  std::vector<int> Choices() const;

 private:
  // Returns the number of the largest lead that is not above this one.
  int NumberOf(int64_t lead_ps) const;
  // Returns the least cost of the units before `unit`, if the link has this lead and then the
  // reduction of `unit`, and sets the choice for the unit before.
  double Least(int unit, int64_t lead_ps, int64_t waiting_ps, int* choice) const;

  const Problem& problem_;
  const Relaxation relaxation_;
  const int leads_;
  // Leads are multiples of `step_ps_` above `first_ps_`. The first one stands for all below, too.
  int64_t first_ps_ = 0, step_ps_ = 1;
  std::vector<int> rows_;     // of each unit: the row of its first alternative
  std::vector<double> rest_;  // [rows, leads]
  double bound_ = 0;
};

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_CLOCK_BOUND_H_
