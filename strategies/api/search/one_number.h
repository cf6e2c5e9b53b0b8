// Searches over one number of a run: micro-batches, or the rows of a batch.
#ifndef TESSERA_STRATEGIES_API_SEARCH_ONE_NUMBER_H_
#define TESSERA_STRATEGIES_API_SEARCH_ONE_NUMBER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera::strategy::search {

// Calls `seconds` with some of the numbers, which are in ascending order, with each once at most.
// It returns infinity where nothing fits. `may_fit` says so in less time, of larger numbers rather
// than of smaller ones. The first number that may fit comes first, or else the least that does,
// which is looked for by halving; and from there the next ones, as long as times fall. An error of
// either ends it. Thread safety: that of the functions.
absl::Status SearchAscending(absl::Span<const int64_t> numbers,
                             const std::function<absl::StatusOr<bool>(int64_t)>& may_fit,
                             const std::function<absl::StatusOr<double>(int64_t)>& seconds);

// Calls `rate` with `first`, doubles it as long as that returns more, by a share of `worthwhile` at
// least, and tries the numbers half way to the neighbours of the best. The rate is 0 if nothing
// fits. Returns the best number. An error of `rate` ends it.
absl::StatusOr<int64_t> FindBestRate(int64_t first, double worthwhile,
                                     const std::function<absl::StatusOr<double>(int64_t)>& rate);

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_ONE_NUMBER_H_
