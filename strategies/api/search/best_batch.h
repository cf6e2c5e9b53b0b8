// Decides the rows of a batch, where the user leaves them open.
#ifndef TESSERA_STRATEGIES_API_SEARCH_BEST_BATCH_H_
#define TESSERA_STRATEGIES_API_SEARCH_BEST_BATCH_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "strategies/api/kit.h"

namespace tessera::strategy::search {

// The fastest Plan of a batch.
struct Decided {
  Plan plan;
  StepCost cost;
  Explanation explanation;
  int64_t batch = 0;  // rows

  double RowsPerSecond() const { return static_cast<double>(batch) / cost.step_seconds(); }
};

// Returns the Plan that trains the most rows per second, by a share of `worthwhile` at least, of
// the batches that FindBestRate tries. `decide` finds the fastest Plan of a batch, whose Graphs are
// in the context; ResourceExhausted says that nothing fits. Another error ends the search, and so
// does a cancellation, with the best one so far. Thread safety: that of `decide`.
absl::StatusOr<Decided> DecideBatch(
    const Request& request, Host& host, double worthwhile,
    const std::function<absl::StatusOr<Decided>(int64_t batch, TesseraContext* context)>& decide);

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_BEST_BATCH_H_
