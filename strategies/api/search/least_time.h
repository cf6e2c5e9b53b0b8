// A bound that holds for any order of a step's computation and communication.
#ifndef TESSERA_STRATEGIES_API_SEARCH_LEAST_TIME_H_
#define TESSERA_STRATEGIES_API_SEARCH_LEAST_TIME_H_

#include <cstdint>
#include <limits>

#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Returns a time in picoseconds such that no choice within the limit computes, and communicates, in
// less time; kNever if no choice meets the limit. Unlike the bound of Solve, it holds however
// computation and communication overlap: a step takes at least any weighted mean of its computation
// and of its communication. Memory is that of the first and of the last unit's backward pass; a
// byte above the limit costs time (Everett, Operations Research 11, 1963). Thread safety: a pure
// function.
int64_t LeastTime(const Problem& problem);

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_LEAST_TIME_H_
