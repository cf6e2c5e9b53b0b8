#include "strategies/api/search/one_number.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "core/status/status_macros.h"

namespace tessera::strategy::search {

absl::Status SearchAscending(absl::Span<const int64_t> numbers,
                             const std::function<absl::StatusOr<bool>(int64_t)>& may_fit,
                             const std::function<absl::StatusOr<double>(int64_t)>& seconds) {
  if (numbers.empty()) return absl::OkStatus();
  // Mostly the first one fits.
  ASSIGN_OR_RETURN(const bool first_may_fit, may_fit(numbers.front()));
  size_t low = first_may_fit ? 0 : 1, high = first_may_fit ? 0 : numbers.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    ASSIGN_OR_RETURN(const bool fits, may_fit(numbers[middle]));
    if (fits) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (const int64_t number : numbers.subspan(low)) {
    ASSIGN_OR_RETURN(const double next, seconds(number));
    if (!std::isinf(fastest) && next >= fastest) break;
    fastest = next;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FindBestRate(int64_t first, double worthwhile,
                                     const std::function<absl::StatusOr<double>(int64_t)>& rate) {
  int64_t best = first;
  ASSIGN_OR_RETURN(double best_rate, rate(first));
  const auto improves = [&](int64_t number) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const double found, rate(number));
    if (found <= (1 + worthwhile) * best_rate) return false;
    best = number;
    best_rate = found;
    return true;
  };
  for (bool better = true; better;) {
    ASSIGN_OR_RETURN(better, improves(2 * best));
  }
  const int64_t doubled = best;
  for (const int64_t number : {doubled / 4 * 3, doubled / 2 * 3}) {
    if (number < first || number == doubled) continue;
    RETURN_IF_ERROR(improves(number).status());
  }
  return best;
}

}  // namespace tessera::strategy::search
