// Many ranges are packed as an allocator would, in the order of time. That fragments the memory
// if long and short ranges lie side by side, so they are also assigned apart: those of one kind
// from the bottom of the memory, the others from its top, for several kinds. Training steps in many
// micro-batches come within 5 % of the bound this way, and are up to 30 % above it otherwise
// (assign_offsets_benchmark).
#include "core/program/assign_offsets.h"

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
// Live ranges in all tries together, after the first.
constexpr size_t kMostTried = 3'000'000;

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
Assignment AssignInTime(absl::Span<const LiveRange> ranges, bool backward = false) {
  const auto begin = [&](int32_t id) { return backward ? -ranges[id].last : ranges[id].first; };
  const auto end = [&](int32_t id) { return backward ? -ranges[id].first : ranges[id].last; };
  Assignment assignment;
  assignment.offsets.assign(ranges.size(), 0);
  std::vector<int32_t> begins(ranges.size()), ends(ranges.size());
  std::iota(begins.begin(), begins.end(), 0);
  ends = begins;
  std::stable_sort(begins.begin(), begins.end(), [&](int32_t a, int32_t b) {
    return begin(a) != begin(b) ? begin(a) < begin(b) : ranges[a].bytes > ranges[b].bytes;
  });
  std::stable_sort(ends.begin(), ends.end(), [&](int32_t a, int32_t b) { return end(a) < end(b); });
  Gaps gaps;
  size_t next_end = 0;
  for (int32_t id : begins) {
    const int64_t bytes = ranges[id].bytes;
    for (; next_end < ends.size() && end(ends[next_end]) < begin(id); ++next_end) {
      gaps.Add(assignment.offsets[ends[next_end]], ranges[ends[next_end]].bytes);
    }
    int64_t offset = gaps.Take(bytes);
    if (offset < 0) {
      offset = gaps.TakeLast(assignment.bytes);
      assignment.bytes = offset + bytes;
    }
    assignment.offsets[id] = offset;
  }
  return assignment;
}

// The moments at which some range begins or ends.
std::vector<int32_t> Moments(absl::Span<const LiveRange> ranges) {
  std::vector<int32_t> moments;
  moments.reserve(2 * ranges.size());
  for (const LiveRange& item : ranges) {
    moments.push_back(item.first);
    moments.push_back(item.last);
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

// The end of what is in use at each moment.
std::vector<int64_t> Heights(absl::Span<const LiveRange> ranges, const Assignment& assignment,
                             const std::vector<int32_t>& moments) {
  std::vector<int32_t> begins(ranges.size());
  std::iota(begins.begin(), begins.end(), 0);
  std::vector<int32_t> ends = begins;
  std::sort(begins.begin(), begins.end(),
            [&](int32_t a, int32_t b) { return ranges[a].first < ranges[b].first; });
  std::sort(ends.begin(), ends.end(),
            [&](int32_t a, int32_t b) { return ranges[a].last < ranges[b].last; });
  std::vector<int64_t> heights(moments.size(), 0);
  std::multiset<int64_t> live;
  size_t next_begin = 0, next_end = 0;
  for (size_t m = 0; m < moments.size(); ++m) {
    for (; next_begin < begins.size() && ranges[begins[next_begin]].first <= moments[m];
         ++next_begin) {
      live.insert(assignment.offsets[begins[next_begin]] + ranges[begins[next_begin]].bytes);
    }
    for (; next_end < ends.size() && ranges[ends[next_end]].last < moments[m]; ++next_end) {
      live.erase(live.find(assignment.offsets[ends[next_end]] + ranges[ends[next_end]].bytes));
    }
    if (!live.empty()) heights[m] = *live.rbegin();
  }
  return heights;
}

struct Direction {
  bool low_backward, high_backward;
};

// Whether a range lies at the bottom of the memory.
using Kind = std::function<bool(const LiveRange&)>;

// Assigns those for which `low` holds from the bottom of the memory and the others from its top.
Assignment AssignApart(absl::Span<const LiveRange> ranges, const std::vector<int32_t>& moments,
                       const Kind& low, Direction direction) {
  std::vector<LiveRange> lows, highs;
  for (const LiveRange& item : ranges) (low(item) ? lows : highs).push_back(item);
  const Assignment from_bottom = AssignInTime(lows, direction.low_backward);
  const Assignment from_top = AssignInTime(highs, direction.high_backward);
  const std::vector<int64_t> low_heights = Heights(lows, from_bottom, moments);
  const std::vector<int64_t> high_heights = Heights(highs, from_top, moments);
  Assignment assignment;
  for (size_t m = 0; m < moments.size(); ++m) {
    assignment.bytes = std::max(assignment.bytes, low_heights[m] + high_heights[m]);
  }
  size_t next_low = 0, next_high = 0;
  assignment.offsets.reserve(ranges.size());
  for (const LiveRange& item : ranges) {
    assignment.offsets.push_back(low(item) ? from_bottom.offsets[next_low++]
                                           : assignment.bytes - item.bytes -
                                                 from_top.offsets[next_high++]);
  }
  return assignment;
}

int64_t Length(const LiveRange& item) { return int64_t{item.last} - item.first + 1; }

// The lengths of the ranges that take most memory for most of the time, that one first. All sums
// of gradients that each micro-batch replaces have one length.
std::vector<int64_t> CommonLengths(absl::Span<const LiveRange> ranges) {
  constexpr size_t kMost = 3;
  std::map<int64_t, double> usage;  // length -> bytes * steps
  for (const LiveRange& item : ranges) {
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
std::vector<Kind> KindsOf(absl::Span<const LiveRange> ranges) {
  int64_t longest = 0, largest = 0;
  for (const LiveRange& item : ranges) {
    longest = std::max(longest, Length(item));
    largest = std::max(largest, item.bytes);
  }
  std::vector<Kind> kinds;
  // Those at least as long as a common length, but for the largest: while one of those
  // replaces another, both take memory, which others can use at all other times.
  for (const int64_t length : CommonLengths(ranges)) {
    kinds.push_back(
        [=](const LiveRange& item) { return Length(item) >= length && item.bytes <= largest / 2; });
  }
  // The long ones, or the large ones. Limits are half powers of two below the largest.
  for (int k = 1; k <= 18; ++k) {
    const double share = std::pow(2.0, -0.5 * k);
    const double length = share * static_cast<double>(longest);
    const double bytes = share * static_cast<double>(largest);
    kinds.push_back(
        [=](const LiveRange& item) { return static_cast<double>(Length(item)) >= length; });
    kinds.push_back(
        [=](const LiveRange& item) { return static_cast<double>(item.bytes) >= bytes; });
  }
  return kinds;
}

// Tries to do better than `best`, which is good enough at `target` bytes.
void ImproveApart(absl::Span<const LiveRange> ranges, int64_t target, Assignment& best) {
  const std::vector<int32_t> moments = Moments(ranges);
  size_t tried = 0;
  for (const Kind& low : KindsOf(ranges)) {
    for (const Direction direction :
         {Direction{true, false}, {false, false}, {false, true}, {true, true}}) {
      if (best.bytes <= target || tried + ranges.size() > kMostTried) return;
      tried += ranges.size();
      Assignment assignment = AssignApart(ranges, moments, low, direction);
      if (assignment.bytes < best.bytes) best = std::move(assignment);
    }
  }
}

enum class Fit { kTightest, kLowest };

// Assigns ranges one after another in the given order, each to the tightest, or the lowest, gap
// that is free during all of it.
Assignment AssignInOrder(absl::Span<const LiveRange> ranges, const std::vector<int32_t>& order,
                         Fit fit = Fit::kTightest) {
  Assignment assignment;
  assignment.offsets.assign(ranges.size(), 0);
  std::vector<int32_t> by_offset;  // sorted by offset
  by_offset.reserve(ranges.size());
  for (int32_t id : order) {
    const LiveRange& item = ranges[id];
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    int64_t end = 0;  // of what overlaps it in time, so far
    for (int32_t other : by_offset) {
      const LiveRange& o = ranges[other];
      if (o.last < item.first || item.last < o.first) continue;
      const int64_t gap = assignment.offsets[other] - end;
      if (gap >= item.bytes && gap < best_gap) {
        best_gap = gap;
        best_offset = end;
        if (fit == Fit::kLowest) break;
      }
      end = std::max(end, assignment.offsets[other] + o.bytes);
    }
    const int64_t offset = best_offset >= 0 ? best_offset : end;
    assignment.offsets[id] = offset;
    assignment.bytes = std::max(assignment.bytes, offset + item.bytes);
    by_offset.insert(std::upper_bound(by_offset.begin(), by_offset.end(), offset,
                                      [&](int64_t value, int32_t other) {
                                        return value < assignment.offsets[other];
                                      }),
                     id);
  }
  return assignment;
}

// Tries the orders that compare every range with all that come before it.
void ImproveByPairs(absl::Span<const LiveRange> ranges, int64_t bound, Assignment& best) {
  const auto length = [&](int32_t id) { return Length(ranges[id]); };
  const std::function<bool(int32_t, int32_t)> orders[] = {
      [&](int32_t a, int32_t b) { return ranges[a].bytes > ranges[b].bytes; },
      [&](int32_t a, int32_t b) { return length(a) > length(b); },
      [&](int32_t a, int32_t b) {
        return static_cast<double>(ranges[a].bytes) * static_cast<double>(length(a)) >
               static_cast<double>(ranges[b].bytes) * static_cast<double>(length(b));
      },
      [&](int32_t a, int32_t b) { return ranges[a].first < ranges[b].first; },
  };
  std::vector<int32_t> order(ranges.size());
  for (const auto& before : orders) {
    if (best.bytes == bound) break;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    Assignment assignment = AssignInOrder(ranges, order);
    if (assignment.bytes < best.bytes) best = std::move(assignment);
  }
}

using Before = std::function<bool(int32_t, int32_t)>;

// Finds an order for the ranges of `ids`: after each try, those that reach above their bound
// move to its front.
std::vector<int32_t> RepairedOrder(absl::Span<const LiveRange> ranges, std::vector<int32_t> ids,
                                   int64_t bound, const Before& before, int64_t& least) {
  constexpr int kTries = 8;
  std::stable_sort(ids.begin(), ids.end(), before);
  std::vector<int32_t> best;
  for (int i = 0; i < kTries && least > bound; ++i) {
    const Assignment assignment = AssignInOrder(ranges, ids, Fit::kLowest);
    if (assignment.bytes < least) {
      least = assignment.bytes;
      best = ids;
    }
    std::stable_partition(ids.begin(), ids.end(), [&](int32_t id) {
      return assignment.offsets[id] + ranges[id].bytes > bound;
    });
  }
  return best;
}

// Searches an order for the large ranges, which are few; the others fit into the gaps.
void ImproveByLargeOnes(absl::Span<const LiveRange> ranges, int64_t bound, int64_t target,
                        Assignment& best) {
  constexpr size_t kMostLarge = 1000;
  const auto bytes = [&](int32_t id) { return static_cast<double>(ranges[id].bytes); };
  const auto length = [&](int32_t id) { return static_cast<double>(Length(ranges[id])); };
  const Before orders[] = {
      [&](int32_t a, int32_t b) { return ranges[a].bytes > ranges[b].bytes; },
      [&](int32_t a, int32_t b) { return length(a) > length(b); },
      [&](int32_t a, int32_t b) { return bytes(a) * length(a) > bytes(b) * length(b); },
      [&](int32_t a, int32_t b) {
        return bytes(a) * std::sqrt(length(a)) > bytes(b) * std::sqrt(length(b));
      },
      [&](int32_t a, int32_t b) { return ranges[a].first < ranges[b].first; },
      [&](int32_t a, int32_t b) { return ranges[a].last > ranges[b].last; },
  };
  for (const int64_t share : {100, 300, 1000}) {
    if (best.bytes <= target) return;
    std::vector<int32_t> large, small;
    for (int32_t id = 0; id < static_cast<int32_t>(ranges.size()); ++id) {
      (ranges[id].bytes >= bound / share ? large : small).push_back(id);
    }
    if (large.empty() || large.size() > kMostLarge) continue;
    std::stable_sort(small.begin(), small.end(), orders[0]);
    int64_t least = std::numeric_limits<int64_t>::max();
    std::vector<int32_t> order;
    for (const Before& before : orders) {
      std::vector<int32_t> found = RepairedOrder(ranges, large, bound, before, least);
      if (!found.empty()) order = std::move(found);
    }
    order.insert(order.end(), small.begin(), small.end());
    Assignment assignment = AssignInOrder(ranges, order, Fit::kLowest);
    if (assignment.bytes < best.bytes) best = std::move(assignment);
  }
}

}  // namespace

int64_t LiveBytesBound(absl::Span<const LiveRange> ranges) {
  std::map<int32_t, int64_t> change;
  for (const LiveRange& item : ranges) {
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

Assignment AssignOffsets(absl::Span<const LiveRange> ranges) {
  const int64_t bound = LiveBytesBound(ranges);
  Assignment best = AssignInTime(ranges);
  if (best.bytes == bound) return best;
  if (Assignment assignment = AssignInTime(ranges, /*backward=*/true);
      assignment.bytes < best.bytes) {
    best = std::move(assignment);
  }
  if (ranges.size() <= kMostForPairs) ImproveByPairs(ranges, bound, best);
  // Among many, the rest is not worth the time.
  const int64_t target = bound + (ranges.size() <= kMostForPairs ? bound / 100 : bound / 20);
  ImproveApart(ranges, target, best);
  if (ranges.size() <= kMostForPairs) ImproveByLargeOnes(ranges, bound, target, best);
  return best;
}

}  // namespace tessera
