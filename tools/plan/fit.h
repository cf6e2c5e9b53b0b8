// Finds the settings with which a strategy's step fits in memory and is fastest.
#ifndef TESSERA_TOOLS_PLAN_FIT_H_
#define TESSERA_TOOLS_PLAN_FIT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "tools/plan/cell.h"

namespace tessera {

// Returns whether the search is to stop, with the best Cell so far.
using StopsSearch = std::function<bool()>;

// Searches micro-batches and recomputation, each unless the command line sets it. More
// micro-batches need less memory and more time; so, with and without recomputation, this finds the
// fewest micro-batches that fit, and returns the faster one of these two. If nothing fits, returns
// the step as the command line has it, with the least memory that was found.
absl::StatusOr<Cell> PlanFastestFit(const CellRequest& request, const ModelDefinition& model,
                                    const StopsSearch& stops);

// Returns the step on the fewest ranks of 1, 2, 4, ... on which it fits with some settings, as
// PlanFastestFit plans it; `request.ranks` is not used. If it does not fit on the most that have a
// sequence of the batch each, returns the step on these. The search assumes that fewer ranks need
// no less.
absl::StatusOr<Cell> PlanFewestRanks(CellRequest request, const ModelDefinition& model,
                                     const StopsSearch& stops);

// Returns the numbers of micro-batches that are tried for a batch: its divisors, from `fewest` on,
// up to those that leave each of `ranks` ranks a sequence (or one sequence for all). Sorted.
std::vector<int64_t> MicroBatchesToTry(int64_t batch, int64_t fewest, int ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_FIT_H_
