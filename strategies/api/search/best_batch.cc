#include "strategies/api/search/best_batch.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "strategies/api/search/one_number.h"

namespace tessera::strategy::search {

absl::StatusOr<Decided> DecideBatch(
    const Request& request, Host& host, double worthwhile,
    const std::function<absl::StatusOr<Decided>(int64_t batch, TesseraContext* context)>& decide) {
  // A row of each rank in each micro-batch, if the user says how many there are.
  const int64_t first = request.ranks() * request.MicroBatchCounts(request.ranks()).front();
  Decided best;
  int tried = 0;
  const auto rate = [&](int64_t batch) -> absl::StatusOr<double> {
    if (batch % first != 0 || (tried > 0 && host.cancelled())) return 0;
    ASSIGN_OR_RETURN(TesseraContext* const context, host.OpenContext(batch, 0));
    absl::StatusOr<Decided> found = decide(batch, context);
    host.CloseContext(context);
    ++tried;
    // The smallest batch fits, or nothing does.
    if (absl::IsResourceExhausted(found.status()) && best.batch > 0) return 0;
    RETURN_IF_ERROR(found.status());
    const double rows = found->RowsPerSecond();
    if (best.batch == 0 || rows > (1 + worthwhile) * best.RowsPerSecond()) {
      best = *std::move(found);
    }
    return rows;
  };
  RETURN_IF_ERROR(FindBestRate(first, worthwhile, rate).status());
  best.explanation.add_notes(absl::StrFormat("of %d batches, %d rows train the most: %.4g a second",
                                             tried, best.batch, best.RowsPerSecond()));
  return best;
}

}  // namespace tessera::strategy::search
