// A bound that holds for any order of a step's computation and communication.
#ifndef TESSERA_STRATEGIES_API_SEARCH_LEAST_TIME_H_
#define TESSERA_STRATEGIES_API_SEARCH_LEAST_TIME_H_

#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The sums over the units of a choice for each: computation, communication and memory. The last
// unit that is gathered in the backward pass, the first there, need not be gathered again: what its
// forward pass used may still be there, so that its backward gather is left out. The bytes are
// those of the first or of the last unit's backward pass, whichever are more.
struct Sums {
  int64_t computation_ps = 0, link_ps = 0, bytes = 0;
};

// Thread safety: a pure function.
Sums SumsOf(const Problem& problem, absl::Span<const int> choices);

// Returns a time in picoseconds such that no choice within the limit has Sums that a step can do in
// less time; kNever if no choice meets the limit. A step may take less than its Sums by `excess`.
// Unlike the bound of Solve, it holds however computation and communication overlap: a step takes
// at least any weighted mean of its computation and of its communication. A byte above the limit
// costs time (Everett, Operations Research 11, 1963). Thread safety: a pure function.
int64_t LeastTime(const Problem& problem, const Sums& excess = {});

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_LEAST_TIME_H_
