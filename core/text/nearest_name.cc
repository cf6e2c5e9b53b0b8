#include "core/text/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// Returns the number of edits that turn one name into the other: a letter is inserted, removed or
// replaced, or two adjacent letters are transposed ("optimal string alignment").
size_t EditDistance(absl::string_view a, absl::string_view b) {
  // Rows of the table for the first i - 2, i - 1 and i letters of a.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates) {
  // The time of EditDistance is proportional to the product of both lengths.
  constexpr size_t kMaxLetters = 128;
  std::string nearest;
  if (name.size() > kMaxLetters) return nearest;
  size_t least = (name.size() < 4 ? 1 : std::max<size_t>(2, name.size() / 3)) + 1;
  for (const std::string& candidate : candidates) {
    const bool inner = name.size() >= 2 && absl::EndsWith(candidate, absl::StrCat(".", name));
    const bool longer =
        candidate.size() >= 2 && absl::StartsWith(name, absl::StrCat(candidate, "_"));
    const size_t distance = inner || longer ? 1 : EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(absl::string_view name, absl::Span<const std::string> candidates) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

}  // namespace tessera
