// Bounds for the search (search.h): partial choices, and relaxations of how they are completed.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_API_SEARCH_RELAXATION_H_
#define TESSERA_STRATEGIES_API_SEARCH_RELAXATION_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // at most so much of a bound is due to rounding

inline constexpr int64_t kLinkFree = INT64_MIN / 4;  // a clock of a link that was free long ago

// A choice for the last units. Its forward clocks are the time from a unit's start to the end of
// the forward pass: if computation is free at 0, and if the link is.
struct Partial {
  int64_t forward_ps = 0, forward_link_ps = 0;
  int64_t backward_ps = 0, backward_link_ps = 0;  // since the start of the backward pass
  int64_t waiting_ps = 0;                         // of the reduction that is not on the link yet
  int64_t end_bytes = 0;                          // that these units hold when they are done
  int64_t peak_bytes = 0;  // the most until then, with all that they hold from the step's start
  double bound = 0;        // of the objective of all completions
  int parent = 0, choice = 0;
};

// At least so many bytes take at least so much time.
struct Point {
  int64_t bytes;
  double ps;
};

// Returns the partial choice with another unit before it.
Partial Extend(const Partial& later, const Alternative& unit);
// Returns when the backward pass ends, if no unit is before the first one.
int64_t BackwardEndOf(const Partial& partial);
// Returns the time and the peak of a choice for all units.
Outcome OutcomeOf(const Partial& all);

inline double Mean(double weight, int64_t computation, int64_t link) {
  return weight * static_cast<double>(computation) + (1 - weight) * static_cast<double>(link);
}

// A relaxation: the time of a step is at least the mean of computation and communication with these
// weights, and each byte above the limit costs `ps_per_byte`. The bytes are those while the
// backward pass of one unit runs.
struct Relaxation {
  double forward = 0.5, backward = 0.5;  // weights of computation, 0 to 1
  int position = 0;                      // that unit
  double ps_per_byte = 0;
  double bound = -kInfinite;      // for the problem
  std::vector<double> rest = {};  // [units + 1]: the least cost of the units before this one
  // [units + 1]: the least times of the units before this one, by the bytes that they may have.
  std::vector<std::vector<Point>> frontiers = {};

  // The first unit's gather and reduction have nothing beside them: nothing can be computed before
  // it is gathered, and the backward pass ends with it.
  double ForwardOf(const Alternative& unit, int index) const {
    return forward * unit.forward_ps + (index == 0 ? 1 : 1 - forward) * unit.forward_gather_ps;
  }
  double BackwardOf(const Alternative& unit, int index) const {
    return Mean(backward, unit.backward_ps, unit.backward_gather_ps) +
           (index == 0 ? 1 : 1 - backward) * unit.reduction_ps;
  }
  double TimeOf(const Alternative& unit, int index) const {
    return ForwardOf(unit, index) + BackwardOf(unit, index);
  }
  int64_t BytesOf(const Alternative& unit, int index) const {
    if (index > position) return unit.held_bytes + unit.growth_bytes;
    if (index < position) return unit.held_bytes;
    return unit.held_bytes + std::max(unit.surge_bytes, unit.growth_bytes);
  }
  // Returns a bound of the time of all completions of a partial choice whose first unit this is.
  // The next unit's gather takes at most `next_gather_ps`.
  double BoundOf(const Partial& partial, int first_unit, int64_t limit,
                 int64_t next_gather_ps) const;
  double CostOf(const Alternative& unit, int index) const {
    return TimeOf(unit, index) + ps_per_byte * static_cast<double>(BytesOf(unit, index));
  }
  // Returns the bytes and times of all choices for the first units, alone.
  std::vector<Point> PointsOfFirst(const Problem& problem, int units) const;
  void AddRest(const Problem& problem);
  // Adds frontiers of at most so many points each.
  void AddFrontiers(const Problem& problem, size_t most);
};

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_RELAXATION_H_
