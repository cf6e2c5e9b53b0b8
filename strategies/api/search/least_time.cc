#include "strategies/api/search/least_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "strategies/api/search/relaxation.h"

namespace tessera::strategy::search {
namespace {

constexpr int kWeights = 32;   // of computation, evenly from 0 to 1
constexpr int kHalvings = 60;  // of the range of the price of a byte

// A choice's part in the sums of a step; of the link's time, the backward gather.
struct Part {
  double computation_ps, link_ps, gather_ps, bytes;
};

using Parts = std::vector<std::vector<Part>>;  // by unit and choice

// Returns a unit's part of the memory while the backward pass of unit `at` runs.
int64_t BytesAt(size_t at, size_t unit, const Alternative& choice) {
  if (unit < at) return choice.held_bytes;
  const int64_t more =
      unit > at ? choice.growth_bytes : std::max(choice.surge_bytes, choice.growth_bytes);
  return choice.held_bytes + more;
}

int64_t ComputationOf(const Alternative& choice) { return choice.forward_ps + choice.backward_ps; }

int64_t LinkOf(const Alternative& choice) {
  return choice.forward_gather_ps + choice.backward_gather_ps + choice.reduction_ps;
}

// Returns the parts of memory while the backward pass of unit `at` runs.
Parts PartsOf(const Problem& problem, size_t at) {
  Parts parts;
  for (size_t i = 0; i < problem.units.size(); ++i) {
    std::vector<Part>& of_unit = parts.emplace_back();
    for (const Alternative& choice : problem.units[i]) {
      of_unit.push_back({static_cast<double>(ComputationOf(choice)),
                         static_cast<double>(LinkOf(choice)),
                         static_cast<double>(choice.backward_gather_ps),
                         static_cast<double>(BytesAt(at, i, choice))});
    }
  }
  return parts;
}

// The least cost of any choice, if a byte above the limit has a price, and the bytes of that
// choice.
struct Cost {
  double ps = 0, bytes = 0;

  Cost Plus(const Cost& other) const { return {ps + other.ps, bytes + other.bytes}; }
  void Lower(const Cost& other) {
    if (other.ps < ps || (other.ps == ps && other.bytes < bytes)) *this = other;
  }
};

Cost LeastCost(const Parts& parts, double weight, double price, double limit) {
  constexpr Cost kNone = {std::numeric_limits<double>::infinity(), 0};
  // If no later unit is gathered in the backward pass, and if one is.
  Cost ungathered = {.ps = -price * limit}, gathered = kNone;
  for (size_t i = parts.size(); i-- > 0;) {
    // All choices; those that gather first in the backward pass; those that do not gather there.
    Cost any = kNone, first = kNone, none = kNone;
    for (const Part& part : parts[i]) {
      const double ps =
          weight * part.computation_ps + (1 - weight) * part.link_ps + price * part.bytes;
      any.Lower({ps, part.bytes});
      if (part.gather_ps > 0) {
        first.Lower({ps - (1 - weight) * part.gather_ps, part.bytes});
      } else {
        none.Lower({ps, part.bytes});
      }
    }
    gathered = gathered.Plus(any);
    gathered.Lower(ungathered.Plus(first));
    ungathered = ungathered.Plus(none);
  }
  ungathered.Lower(gathered);
  return ungathered;
}

// Returns the greatest bound for a weight of computation. The bound is concave in the price: it
// grows while the cheapest choice exceeds the limit.
double BoundOf(const Parts& parts, double weight, double limit) {
  const Cost free = LeastCost(parts, weight, 0, limit);
  if (free.bytes <= limit) return free.ps;
  double bound = free.ps, low = 0, high = 1e-6;
  while (high < 1e12 && LeastCost(parts, weight, high, limit).bytes > limit) high *= 16;
  for (int i = 0; i < kHalvings; ++i) {
    const double price = (low + high) / 2;
    const Cost cost = LeastCost(parts, weight, price, limit);
    bound = std::max(bound, cost.ps);
    (cost.bytes > limit ? low : high) = price;
  }
  return bound;
}

}  // namespace

Sums SumsOf(const Problem& problem, absl::Span<const int> choices) {
  Sums sums;
  if (problem.units.empty()) return sums;
  int64_t at_first = 0, at_last = 0, again = 0;
  for (size_t i = 0; i < problem.units.size(); ++i) {
    const Alternative& choice = problem.units[i][choices[i]];
    sums.computation_ps += ComputationOf(choice);
    sums.link_ps += LinkOf(choice);
    if (choice.backward_gather_ps > 0) again = choice.backward_gather_ps;
    at_first += BytesAt(0, i, choice);
    at_last += BytesAt(problem.units.size() - 1, i, choice);
  }
  sums.link_ps -= again;
  sums.bytes = std::max(at_first, at_last);
  return sums;
}

int64_t LeastTime(const Problem& problem, const Sums& excess) {
  if (problem.units.empty()) return 0;
  const auto limit = static_cast<double>(problem.limit_bytes + excess.bytes);
  double bound = 0;
  for (const size_t at : {problem.units.size() - 1, size_t{0}}) {
    const Parts parts = PartsOf(problem, at);
    double least_bytes = 0;
    for (const std::vector<Part>& unit : parts) {
      const auto leanest = std::min_element(
          unit.begin(), unit.end(), [](const Part& a, const Part& b) { return a.bytes < b.bytes; });
      least_bytes += leanest->bytes;
    }
    if (least_bytes > limit) return kNever;
    for (int i = 0; i <= kWeights; ++i) {
      const double weight = static_cast<double>(i) / kWeights;
      const double less = weight * static_cast<double>(excess.computation_ps) +
                          (1 - weight) * static_cast<double>(excess.link_ps);
      bound = std::max(bound, BoundOf(parts, weight, limit) - less);
    }
  }
  return static_cast<int64_t>(bound * (1 - kRounding));
}

}  // namespace tessera::strategy::search
