// Chooses one of several alternatives for each unit of a model, so that a step takes the least time
// within a memory limit. For any strategy that searches: it says in times and bytes what each
// alternative costs, and learns which to take, and how far from the best the choice can be at most.
//
//   search::Problem problem = {.limit_bytes = limit};
//   for (...) problem.units.push_back({replicated, sharded});
//   const search::Solution solution = search::Solve(problem, {.gap = 1e-3});
//   if (!solution.found()) ...  // name solution.least_peak_bytes as a limit that is enough
//
// A unit is gathered and reduced as one: a block, an operator, an embedding. The model of a step
// has two resources, computation and the link, each of which does one thing at a time. Units run in
// order in the forward pass and in reverse in the backward pass:
//   forward:  a unit is gathered as soon as the link is free, and computed when it is gathered and
//             the unit before it is computed;
//   backward: the same in reverse. The gradients of a unit are reduced when it is computed, behind
//             the gather of the next unit, which the link does meanwhile.
// The backward pass begins when the forward pass has ended. Memory is counted in the backward pass,
// where it has its peak: bytes that are held from the step's start, the growth by the units that
// are done, and the surge of the unit that is computed.
//
// The bound is a Lagrangian relaxation (Everett, Operations Research 11, 1963): a byte above the
// limit costs time, and what is left can be solved exactly. Any price of a byte gives a bound, and
// the search looks for the best one.
#ifndef TESSERA_STRATEGIES_API_SEARCH_SEARCH_H_
#define TESSERA_STRATEGIES_API_SEARCH_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"

namespace tessera::strategy::search {

// Times are whole picoseconds and sizes whole bytes, so that sums are exact in any order. The times
// of a step are at most 10^18 ps (10^6 seconds) in sum, and its bytes 2^60. Only `growth_bytes` may
// be negative. A gather or a reduction of 0 ps does not wait for the link.
struct Alternative {
  int64_t forward_gather_ps = 0, forward_ps = 0;    // link, computation
  int64_t backward_gather_ps = 0, backward_ps = 0;  // link, computation
  int64_t reduction_ps = 0;                         // link
  // From the step's start: state, and activations that are kept for the backward pass.
  int64_t held_bytes = 0;
  // How much more is held when the unit's backward pass is done: gradients that stay, less the
  // activations that it frees. May be negative.
  int64_t growth_bytes = 0;
  // Held only while the unit's backward pass runs.
  int64_t surge_bytes = 0;
};

struct Problem {
  // In the forward pass's order. Each has at least one alternative.
  std::vector<std::vector<Alternative>> units;
  int64_t limit_bytes = 0;  // a peak of exactly so many bytes fits
};

struct Outcome {
  int64_t step_ps = 0;
  int64_t peak_bytes = 0;
};

// Returns the time and the peak of a choice of an alternative for each unit.
Outcome Evaluate(const Problem& problem, absl::Span<const int> choices);

struct Solution {
  std::vector<int> choices;  // empty: no choice meets the limit
  Outcome outcome;
  // No choice that meets the limit takes less time. The solution is optimal if this is its time.
  int64_t bound_ps = 0;
  // If no choice meets the limit: no limit below this one can be met; `least_choices` meets
  // `least_peak_bytes`.
  int64_t least_bound_bytes = 0, least_peak_bytes = 0;
  std::vector<int> least_choices;

  // Is also false for a problem without units.
  bool found() const { return !choices.empty(); }
  // By which share of the bound the solution can be above the best one: at most this.
  double gap() const {
    return bound_ps == 0 ? 0 : static_cast<double>(outcome.step_ps - bound_ps) / bound_ps;
  }
};

struct Options {
  // The search ends when the gap is at most this: 1e-3 is a thousandth of the step.
  double gap = 0;
  // How many partial choices are kept for a unit at most, in the last, widest pass: fewer if there
  // are many units.
  int widest = 1 << 11;
  // Is asked between passes; true ends the search with the best solution so far. May be null.
  std::function<bool()> stop = nullptr;
};

// Returns the fastest choice that meets the limit, and a bound for it. There are no errors: a limit
// that no choice meets is a Solution without choices. Deterministic. Thread safety: a pure
// function.
//
// A partial choice covers the last units. One is dropped if each of its completions takes no less
// time and no less memory than the same one of another, or if it cannot be completed within the
// limit, or not in less time than the best choice so far. A Lagrangian relaxation bounds the time
// of completions: a step takes at least any weighted mean of its computation and of its
// communication, in each pass, and a limit that is exceeded costs time in proportion. Of the
// partial choices that are left for a unit, those with the least bounds are kept; the bounds of the
// others bound what the search did not see.
Solution Solve(const Problem& problem, const Options& options = {});

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_SEARCH_H_
