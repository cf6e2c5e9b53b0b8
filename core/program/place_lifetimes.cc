// Many lifetimes are packed as an allocator would, in the order of time. That fragments the memory
// if long and short lifetimes lie side by side, so they are also placed apart: those of one kind
// from the bottom of the memory, the others from its top, for several kinds. Training steps in many
// micro-batches come within 5 % of the bound this way, and are up to 30 % above it otherwise
// (place_lifetimes_benchmark).
#include "core/program/place_lifetimes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace tessera {
namespace {

// Above this the orders that compare pairs are left out.
constexpr size_t kMostForPairs = 20000;
// Lifetimes placed in all tries together, after the first.
constexpr size_t kMostPlaced = 3'000'000;

// Free memory below the end of what is in use so far.
class Gaps {
 public:
  void Add(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = Remove(next);
    }
    if (next != by_offset_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(previous);
      }
    }
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }

  // Takes `bytes` from the tightest gap that is large enough; -1 if there is none.
  int64_t Take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return -1;
    const auto [size, offset] = *fit;
    Remove(by_offset_.find(offset));
    if (size > bytes) Add(offset + bytes, size - bytes);
    return offset;
  }

  // Removes the gap that reaches to `end` and returns its offset; `end` if there is none.
  int64_t TakeLast(int64_t end) {
    if (by_offset_.empty()) return end;
    const auto last = std::prev(by_offset_.end());
    const int64_t offset = last->first;
    if (offset + last->second != end) return end;
    Remove(last);
    return offset;
  }

 private:
  using ByOffset = std::map<int64_t, int64_t>;

  ByOffset::iterator Remove(ByOffset::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return by_offset_.erase(gap);
  }

  ByOffset by_offset_;                             // offset -> bytes
  std::set<std::pair<int64_t, int64_t>> by_size_;  // bytes, offset
};

// Walks through time, or back, as an allocator would: n log n.
Placement PlaceInTime(absl::Span<const Lifetime> lifetimes, bool backward = false) {
  const auto begin = [&](int32_t id) {
    return backward ? -lifetimes[id].last : lifetimes[id].first;
  };
  const auto end = [&](int32_t id) { return backward ? -lifetimes[id].first : lifetimes[id].last; };
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<int32_t> begins(lifetimes.size()), ends(lifetimes.size());
  std::iota(begins.begin(), begins.end(), 0);
  ends = begins;
  std::stable_sort(begins.begin(), begins.end(), [&](int32_t a, int32_t b) {
    return begin(a) != begin(b) ? begin(a) < begin(b) : lifetimes[a].bytes > lifetimes[b].bytes;
  });
  std::stable_sort(ends.begin(), ends.end(), [&](int32_t a, int32_t b) { return end(a) < end(b); });
  Gaps gaps;
  size_t next_end = 0;
  for (int32_t id : begins) {
    const int64_t bytes = lifetimes[id].bytes;
    for (; next_end < ends.size() && end(ends[next_end]) < begin(id); ++next_end) {
      gaps.Add(placement.offsets[ends[next_end]], lifetimes[ends[next_end]].bytes);
    }
    int64_t offset = gaps.Take(bytes);
    if (offset < 0) {
      offset = gaps.TakeLast(placement.bytes);
      placement.bytes = offset + bytes;
    }
    placement.offsets[id] = offset;
  }
  return placement;
}

// The moments at which some lifetime begins or ends.
std::vector<int32_t> Moments(absl::Span<const Lifetime> lifetimes) {
  std::vector<int32_t> moments;
  moments.reserve(2 * lifetimes.size());
  for (const Lifetime& item : lifetimes) {
    moments.push_back(item.first);
    moments.push_back(item.last);
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

// The end of what is in use at each moment.
std::vector<int64_t> Heights(absl::Span<const Lifetime> lifetimes, const Placement& placement,
                             const std::vector<int32_t>& moments) {
  std::vector<int32_t> begins(lifetimes.size());
  std::iota(begins.begin(), begins.end(), 0);
  std::vector<int32_t> ends = begins;
  std::sort(begins.begin(), begins.end(),
            [&](int32_t a, int32_t b) { return lifetimes[a].first < lifetimes[b].first; });
  std::sort(ends.begin(), ends.end(),
            [&](int32_t a, int32_t b) { return lifetimes[a].last < lifetimes[b].last; });
  std::vector<int64_t> heights(moments.size(), 0);
  std::multiset<int64_t> live;
  size_t next_begin = 0, next_end = 0;
  for (size_t m = 0; m < moments.size(); ++m) {
    for (; next_begin < begins.size() && lifetimes[begins[next_begin]].first <= moments[m];
         ++next_begin) {
      live.insert(placement.offsets[begins[next_begin]] + lifetimes[begins[next_begin]].bytes);
    }
    for (; next_end < ends.size() && lifetimes[ends[next_end]].last < moments[m]; ++next_end) {
      live.erase(live.find(placement.offsets[ends[next_end]] + lifetimes[ends[next_end]].bytes));
    }
    if (!live.empty()) heights[m] = *live.rbegin();
  }
  return heights;
}

struct Direction {
  bool low_backward, high_backward;
};

// Which lifetimes are placed from the bottom of the memory.
using Kind = std::function<bool(const Lifetime&)>;

// Places those for which `low` holds from the bottom of the memory and the others from its top.
Placement PlaceApart(absl::Span<const Lifetime> lifetimes, const std::vector<int32_t>& moments,
                     const Kind& low, Direction direction) {
  std::vector<Lifetime> lows, highs;
  for (const Lifetime& item : lifetimes) (low(item) ? lows : highs).push_back(item);
  const Placement from_bottom = PlaceInTime(lows, direction.low_backward);
  const Placement from_top = PlaceInTime(highs, direction.high_backward);
  const std::vector<int64_t> low_heights = Heights(lows, from_bottom, moments);
  const std::vector<int64_t> high_heights = Heights(highs, from_top, moments);
  Placement placement;
  for (size_t m = 0; m < moments.size(); ++m) {
    placement.bytes = std::max(placement.bytes, low_heights[m] + high_heights[m]);
  }
  size_t next_low = 0, next_high = 0;
  placement.offsets.reserve(lifetimes.size());
  for (const Lifetime& item : lifetimes) {
    placement.offsets.push_back(low(item)
                                    ? from_bottom.offsets[next_low++]
                                    : placement.bytes - item.bytes - from_top.offsets[next_high++]);
  }
  return placement;
}

int64_t Length(const Lifetime& item) { return int64_t{item.last} - item.first + 1; }

// The lengths of the lifetimes that take most memory for most of the time, that one first. All sums
// of gradients that each micro-batch replaces have one length.
std::vector<int64_t> CommonLengths(absl::Span<const Lifetime> lifetimes) {
  constexpr size_t kMost = 3;
  std::map<int64_t, double> usage;  // length -> bytes * steps
  for (const Lifetime& item : lifetimes) {
    usage[Length(item)] += static_cast<double>(item.bytes) * static_cast<double>(Length(item));
  }
  std::vector<std::pair<double, int64_t>> sorted;
  for (const auto& [length, used] : usage) sorted.emplace_back(used, length);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < std::min(kMost, sorted.size()); ++i) lengths.push_back(sorted[i].second);
  return lengths;
}

// The kinds to try, in this order.
std::vector<Kind> KindsOf(absl::Span<const Lifetime> lifetimes) {
  int64_t longest = 0, largest = 0;
  for (const Lifetime& item : lifetimes) {
    longest = std::max(longest, Length(item));
    largest = std::max(largest, item.bytes);
  }
  std::vector<Kind> kinds;
  // Those that live at least as long as a common length, but for the largest: while one of those
  // replaces another, both take memory, which others can use at all other times.
  for (const int64_t length : CommonLengths(lifetimes)) {
    kinds.push_back(
        [=](const Lifetime& item) { return Length(item) >= length && item.bytes <= largest / 2; });
  }
  // The long ones, or the large ones. Limits are half powers of two below the largest.
  for (int k = 1; k <= 18; ++k) {
    const double share = std::pow(2.0, -0.5 * k);
    const double length = share * static_cast<double>(longest);
    const double bytes = share * static_cast<double>(largest);
    kinds.push_back(
        [=](const Lifetime& item) { return static_cast<double>(Length(item)) >= length; });
    kinds.push_back([=](const Lifetime& item) { return static_cast<double>(item.bytes) >= bytes; });
  }
  return kinds;
}

// Tries to do better than `best`, which is good enough at `target` bytes.
void ImproveByPlacingApart(absl::Span<const Lifetime> lifetimes, int64_t target, Placement& best) {
  const std::vector<int32_t> moments = Moments(lifetimes);
  size_t placed = 0;
  for (const Kind& low : KindsOf(lifetimes)) {
    for (const Direction direction :
         {Direction{true, false}, {false, false}, {false, true}, {true, true}}) {
      if (best.bytes <= target || placed + lifetimes.size() > kMostPlaced) return;
      placed += lifetimes.size();
      Placement placement = PlaceApart(lifetimes, moments, low, direction);
      if (placement.bytes < best.bytes) best = std::move(placement);
    }
  }
}

enum class Fit { kTightest, kLowest };

// Places lifetimes one after another in the given order, each in the tightest, or the lowest, gap
// that is free during all of it.
Placement PlaceInOrder(absl::Span<const Lifetime> lifetimes, const std::vector<int32_t>& order,
                       Fit fit = Fit::kTightest) {
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<int32_t> placed;  // sorted by offset
  placed.reserve(lifetimes.size());
  for (int32_t id : order) {
    const Lifetime& item = lifetimes[id];
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    int64_t end = 0;  // of what overlaps it in time, so far
    for (int32_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < item.first || item.last < o.first) continue;
      const int64_t gap = placement.offsets[other] - end;
      if (gap >= item.bytes && gap < best_gap) {
        best_gap = gap;
        best_offset = end;
        if (fit == Fit::kLowest) break;
      }
      end = std::max(end, placement.offsets[other] + o.bytes);
    }
    const int64_t offset = best_offset >= 0 ? best_offset : end;
    placement.offsets[id] = offset;
    placement.bytes = std::max(placement.bytes, offset + item.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](int64_t value, int32_t other) {
                                     return value < placement.offsets[other];
                                   }),
                  id);
  }
  return placement;
}

// Tries the orders that compare every lifetime with all that were placed before it.
void ImproveByPairs(absl::Span<const Lifetime> lifetimes, int64_t bound, Placement& best) {
  const auto length = [&](int32_t id) { return Length(lifetimes[id]); };
  const std::function<bool(int32_t, int32_t)> orders[] = {
      [&](int32_t a, int32_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; },
      [&](int32_t a, int32_t b) { return length(a) > length(b); },
      [&](int32_t a, int32_t b) {
        return static_cast<double>(lifetimes[a].bytes) * static_cast<double>(length(a)) >
               static_cast<double>(lifetimes[b].bytes) * static_cast<double>(length(b));
      },
      [&](int32_t a, int32_t b) { return lifetimes[a].first < lifetimes[b].first; },
  };
  std::vector<int32_t> order(lifetimes.size());
  for (const auto& before : orders) {
    if (best.bytes == bound) break;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    Placement placement = PlaceInOrder(lifetimes, order);
    if (placement.bytes < best.bytes) best = std::move(placement);
  }
}

using Before = std::function<bool(int32_t, int32_t)>;

// Finds an order for the lifetimes of `ids`: after each try, those that reach above their bound
// move to its front.
std::vector<int32_t> RepairedOrder(absl::Span<const Lifetime> lifetimes, std::vector<int32_t> ids,
                                   int64_t bound, const Before& before, int64_t& least) {
  constexpr int kTries = 8;
  std::stable_sort(ids.begin(), ids.end(), before);
  std::vector<int32_t> best;
  for (int i = 0; i < kTries && least > bound; ++i) {
    const Placement placement = PlaceInOrder(lifetimes, ids, Fit::kLowest);
    if (placement.bytes < least) {
      least = placement.bytes;
      best = ids;
    }
    std::stable_partition(ids.begin(), ids.end(), [&](int32_t id) {
      return placement.offsets[id] + lifetimes[id].bytes > bound;
    });
  }
  return best;
}

// Searches an order for the large lifetimes, which are few; the others fit into the gaps.
void ImproveByLargeOnes(absl::Span<const Lifetime> lifetimes, int64_t bound, int64_t target,
                        Placement& best) {
  constexpr size_t kMostLarge = 1000;
  const auto bytes = [&](int32_t id) { return static_cast<double>(lifetimes[id].bytes); };
  const auto length = [&](int32_t id) { return static_cast<double>(Length(lifetimes[id])); };
  const Before orders[] = {
      [&](int32_t a, int32_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; },
      [&](int32_t a, int32_t b) { return length(a) > length(b); },
      [&](int32_t a, int32_t b) { return bytes(a) * length(a) > bytes(b) * length(b); },
      [&](int32_t a, int32_t b) {
        return bytes(a) * std::sqrt(length(a)) > bytes(b) * std::sqrt(length(b));
      },
      [&](int32_t a, int32_t b) { return lifetimes[a].first < lifetimes[b].first; },
      [&](int32_t a, int32_t b) { return lifetimes[a].last > lifetimes[b].last; },
  };
  for (const int64_t share : {100, 300, 1000}) {
    if (best.bytes <= target) return;
    std::vector<int32_t> large, small;
    for (int32_t id = 0; id < static_cast<int32_t>(lifetimes.size()); ++id) {
      (lifetimes[id].bytes >= bound / share ? large : small).push_back(id);
    }
    if (large.empty() || large.size() > kMostLarge) continue;
    std::stable_sort(small.begin(), small.end(), orders[0]);
    int64_t least = std::numeric_limits<int64_t>::max();
    std::vector<int32_t> order;
    for (const Before& before : orders) {
      std::vector<int32_t> found = RepairedOrder(lifetimes, large, bound, before, least);
      if (!found.empty()) order = std::move(found);
    }
    order.insert(order.end(), small.begin(), small.end());
    Placement placement = PlaceInOrder(lifetimes, order, Fit::kLowest);
    if (placement.bytes < best.bytes) best = std::move(placement);
  }
}

}  // namespace

int64_t LiveBytesBound(absl::Span<const Lifetime> lifetimes) {
  std::map<int32_t, int64_t> change;
  for (const Lifetime& item : lifetimes) {
    change[item.first] += item.bytes;
    change[item.last + 1] -= item.bytes;
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, delta] : change) {
    live += delta;
    most = std::max(most, live);
  }
  return most;
}

Placement PlaceLifetimes(absl::Span<const Lifetime> lifetimes) {
  const int64_t bound = LiveBytesBound(lifetimes);
  Placement best = PlaceInTime(lifetimes);
  if (best.bytes == bound) return best;
  if (Placement placement = PlaceInTime(lifetimes, /*backward=*/true);
      placement.bytes < best.bytes) {
    best = std::move(placement);
  }
  if (lifetimes.size() <= kMostForPairs) ImproveByPairs(lifetimes, bound, best);
  // Among many, the rest is not worth the time.
  const int64_t target = bound + (lifetimes.size() <= kMostForPairs ? bound / 100 : bound / 20);
  ImproveByPlacingApart(lifetimes, target, best);
  if (lifetimes.size() <= kMostForPairs) ImproveByLargeOnes(lifetimes, bound, target, best);
  return best;
}

}  // namespace tessera
