#include "strategies/api/search/one_number.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "core/status/status_macros.h"

namespace tessera::strategy::search {

absl::Status SearchAscending(absl::Span<const int64_t> numbers,
                             const std::function<absl::StatusOr<double>(int64_t)>& seconds) {
  if (numbers.empty()) return absl::OkStatus();
  std::vector<double> known(numbers.size(), -1);
  const auto at = [&](size_t i) -> absl::StatusOr<double> {
    if (known[i] < 0) {
      ASSIGN_OR_RETURN(known[i], seconds(numbers[i]));
    }
    return known[i];
  };
  size_t fits = 0;
  ASSIGN_OR_RETURN(double fastest, at(fits));
  if (std::isinf(fastest)) {
    size_t low = 1, high = numbers.size();
    while (low < high) {
      const size_t middle = (low + high) / 2;
      ASSIGN_OR_RETURN(const double found, at(middle));
      if (std::isinf(found)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == numbers.size()) return absl::OkStatus();
    fits = low;
    ASSIGN_OR_RETURN(fastest, at(fits));
  }
  while (++fits < numbers.size()) {
    ASSIGN_OR_RETURN(const double next, at(fits));
    if (next >= fastest) break;
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
