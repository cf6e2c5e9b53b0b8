#include "strategies/api/search/best_batch.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "strategies/api/search/one_number.h"

namespace tessera::strategy::search {
namespace {

// The batches of which the first one that a model can have is the smallest that is tried, as
// multiples of the least one.
constexpr int64_t kMultiples[] = {1,  2,  3,   4,   6,   8,   12,  16,  24,   32,   48,
                                  64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048};

// Calls `rate` with multiples of `least` up to the first one that is no InvalidArgument, and
// returns it with its rate.
absl::StatusOr<std::pair<int64_t, double>> SmallestBatch(
    int64_t least, const std::function<absl::StatusOr<double>(int64_t)>& rate) {
  absl::Status refused;
  for (const int64_t multiple : kMultiples) {
    const absl::StatusOr<double> found = rate(multiple * least);
    if (found.ok()) return std::pair(multiple * least, *found);
    if (!absl::IsInvalidArgument(found.status())) return found.status();
    refused = found.status();
  }
  return refused;
}

}  // namespace

absl::StatusOr<Decided> DecideBatch(
    const Request& request, Host& host, double worthwhile,
    const std::function<absl::StatusOr<Decided>(int64_t batch, TesseraContext* context)>& decide) {
  // A row of each rank in each micro-batch, if the user says how many there are.
  const int64_t least = request.ranks() * request.MicroBatchCounts(request.ranks()).front();
  Decided best;
  int tried = 0;
  const auto rate = [&](int64_t batch) -> absl::StatusOr<double> {
    const bool has_one = best.batch > 0;
    if (batch % least != 0 || (has_one && host.cancelled())) return 0;
    const absl::StatusOr<TesseraContext*> context = host.OpenContext(batch, 0);
    // A model cannot have every batch, as one with fewer rows than its groups of batch norm.
    if (absl::IsInvalidArgument(context.status()) && has_one) return 0;
    RETURN_IF_ERROR(context.status());
    absl::StatusOr<Decided> found = decide(batch, *context);
    host.CloseContext(*context);
    const bool impossible = absl::IsInvalidArgument(found.status());
    if (!impossible) ++tried;
    // The smallest batch fits, or nothing does.
    if ((impossible || absl::IsResourceExhausted(found.status())) && has_one) return 0;
    RETURN_IF_ERROR(found.status());
    const double rows = found->RowsPerSecond();
    if (!has_one || rows > (1 + worthwhile) * best.RowsPerSecond()) {
      best = *std::move(found);
    }
    return rows;
  };
  ASSIGN_OR_RETURN(const auto smallest, SmallestBatch(least, rate));
  const auto rate_once = [&](int64_t batch) -> absl::StatusOr<double> {
    if (batch == smallest.first) return smallest.second;
    return rate(batch);
  };
  RETURN_IF_ERROR(FindBestRate(smallest.first, worthwhile, rate_once).status());
  best.explanation.add_notes(absl::StrFormat("of %d batches, %d rows train the most: %.4g a second",
                                             tried, best.batch, best.RowsPerSecond()));
  return best;
}

}  // namespace tessera::strategy::search
