// Many ranges are packed in the order of time, as an allocator would. That fragments the memory if
// long and short ranges are adjacent. So ranges are also divided into two kinds, in several ways:
// one kind is packed from the bottom of the memory, the other from its top. For training steps in
// many micro-batches the result is within 5 % of the bound; without this it is up to 30 % above it
// (assign_offsets_benchmark).
#include "core/program/memory/assign_offsets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/types/optional.h"
#include "core/program/memory/assign_in_order.h"
#include "core/program/memory/pack_in_time.h"

namespace tessera {
namespace {

// With more ranges than this, orders that compare pairs are not tried.
constexpr size_t kMaxRangesForPairs = 20000;
// The largest number of live ranges in all tries together, after the first try.
constexpr size_t kMaxRangesTried = 3'000'000;

// Replaces `best` if ranges that are packed in the order of a walk through time take fewer bytes.
void PackAll(absl::Span<const LiveRange> ranges, const Walk& walk, Assignment& best) {
  const std::vector<bool> all(ranges.size(), true);
  Packed packed = PackInTime(ranges, walk, all, /*chosen=*/true, best.bytes);
  if (packed.complete) best = std::move(packed.assignment);
}

// The walks in which the ranges at the bottom and at the top are packed.
struct Direction {
  bool low_backward, high_backward;
};

// A predicate: whether a range is packed at the bottom of the memory.
using IsLow = std::function<bool(const LiveRange&)>;

// Assigns ranges of one kind from the bottom of the memory, and the others from its top.
class BothEndsPacking {
 public:
  // `walks` are the forward and the backward walk; `ranges` and `walks` must outlive the object.
  BothEndsPacking(absl::Span<const LiveRange> ranges, const std::array<Walk, 2>& walks,
                  std::vector<bool> is_low)
      : ranges_(ranges), walks_(walks), is_low_(std::move(is_low)) {}

  // Replaces `best` if these directions take fewer bytes.
  void Improve(Direction direction, Assignment& best) {
    const Packed& lows = Pack(/*low=*/true, direction.low_backward, best.bytes);
    if (!lows.complete) return;
    const Packed& highs = Pack(/*low=*/false, direction.high_backward, best.bytes);
    if (!highs.complete) return;
    const size_t moments = lows.heights.size();
    const auto height = [moments](const Packed& packed, bool backward, size_t m) {
      return packed.heights[backward ? moments - 1 - m : m];
    };
    int64_t bytes = 0;
    for (size_t m = 0; m < moments && bytes < best.bytes; ++m) {
      bytes = std::max(bytes, height(lows, direction.low_backward, m) +
                                  height(highs, direction.high_backward, m));
    }
    if (bytes >= best.bytes) return;
    best.bytes = bytes;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      best.offsets[i] = is_low_[i] ? lows.assignment.offsets[i]
                                   : bytes - ranges_[i].bytes - highs.assignment.offsets[i];
    }
  }

 private:
  // Packs one kind in one direction. Each packing is used twice, so it is kept. It is not complete
  // if it cannot take fewer bytes, which later ones have to as well.
  const Packed& Pack(bool low, bool backward, int64_t fewer_than) {
    absl::optional<Packed>& packed = packed_[low ? 1 : 0][backward ? 1 : 0];
    if (!packed.has_value()) {
      packed = PackInTime(ranges_, walks_[backward ? 1 : 0], is_low_, low, fewer_than);
    }
    return *packed;
  }

  const absl::Span<const LiveRange> ranges_;
  const std::array<Walk, 2>& walks_;
  const std::vector<bool> is_low_;
  std::array<std::array<absl::optional<Packed>, 2>, 2> packed_;
};

int64_t Length(const LiveRange& item) { return int64_t{item.last} - item.first + 1; }

// Returns the lengths of the ranges that use the most bytes * steps, the largest use first. (All
// sums of gradients that each micro-batch replaces have the same length.)
std::vector<int64_t> CommonLengths(absl::Span<const LiveRange> ranges) {
  constexpr size_t kMaxLengths = 3;
  std::map<int64_t, double> usage;  // length -> bytes * steps
  for (const LiveRange& item : ranges) {
    usage[Length(item)] += static_cast<double>(item.bytes) * static_cast<double>(Length(item));
  }
  std::vector<std::pair<double, int64_t>> sorted;
  for (const auto& [length, used] : usage) sorted.emplace_back(used, length);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < std::min(kMaxLengths, sorted.size()); ++i)
    lengths.push_back(sorted[i].second);
  return lengths;
}

// Returns the kinds to try, in this order.
std::vector<IsLow> KindsToTry(absl::Span<const LiveRange> ranges) {
  int64_t longest = 0, largest = 0;
  for (const LiveRange& item : ranges) {
    longest = std::max(longest, Length(item));
    largest = std::max(largest, item.bytes);
  }
  std::vector<IsLow> kinds;
  // Ranges at least as long as a common length, except the largest: when one of those replaces
  // another, both take memory for a short time, and other ranges can use it at all other times.
  for (const int64_t length : CommonLengths(ranges)) {
    kinds.push_back(
        [=](const LiveRange& item) { return Length(item) >= length && item.bytes <= largest / 2; });
  }
  // The long ranges, or the large ones. Limits are the largest value divided by powers of sqrt(2).
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

// Replaces `best` by better packings from both ends. Stops when it needs at most `target` bytes.
void ImproveFromBothEnds(absl::Span<const LiveRange> ranges, const std::array<Walk, 2>& walks,
                         int64_t target, Assignment& best) {
  size_t tried = 0;
  // Kinds that were tried. To pack all at one end is to pack them in time, which was done before.
  std::set<std::vector<bool>> known = {std::vector<bool>(ranges.size(), true)};
  for (const IsLow& low : KindsToTry(ranges)) {
    std::vector<bool> is_low(ranges.size());
    absl::c_transform(ranges, is_low.begin(), low);
    // The same kinds with their ends exchanged take as many bytes.
    std::vector<bool> is_high = is_low;
    is_high.flip();
    const bool is_new = !known.contains(is_high) && known.insert(is_low).second;
    BothEndsPacking packing(ranges, walks, std::move(is_low));
    for (const Direction direction :
         {Direction{true, false}, {false, false}, {false, true}, {true, true}}) {
      if (best.bytes <= target || tried + ranges.size() > kMaxRangesTried) return;
      tried += ranges.size();
      if (is_new) packing.Improve(direction, best);
    }
  }
}

// Replaces `best` by better assignments in orders by size, length and time. Every range is compared
// with all earlier ones.
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
    Assignment assignment = AssignInOrder(ranges, order, Fit::kTightest, best.bytes);
    if (assignment.bytes < best.bytes) best = std::move(assignment);
  }
}

using Before = std::function<bool(int32_t, int32_t)>;

// For each order that was tried, the one to try next.
using NextOrders = std::map<std::vector<int32_t>, std::vector<int32_t>>;

// Returns an order of the ranges `ids` that needs fewer than `least` bytes, and lowers `least` to
// those; empty if no try does. After each try, the ranges that end above `bound` are moved to the
// front.
std::vector<int32_t> RepairedOrder(absl::Span<const LiveRange> ranges, std::vector<int32_t> ids,
                                   int64_t bound, const Before& before, NextOrders& tried,
                                   int64_t& least) {
  constexpr int kTries = 8;
  std::stable_sort(ids.begin(), ids.end(), before);
  std::vector<int32_t> best;
  for (int i = 0; i < kTries && least > bound; ++i) {
    const auto [known, is_new] = tried.try_emplace(ids, ids);
    std::vector<int32_t>& next = known->second;
    if (is_new) {
      const Assignment assignment = AssignInOrder(ranges, ids, Fit::kLowest);
      if (assignment.bytes < least) {
        least = assignment.bytes;
        best = ids;
      }
      absl::c_stable_partition(
          next, [&](int32_t id) { return assignment.offsets[id] + ranges[id].bytes > bound; });
    }
    if (next == ids) break;  // all further tries are this one
    ids = next;
  }
  return best;
}

// Replaces `best` by a better assignment, found by a search for an order of the large ranges, which
// are few. The other ranges fit into the gaps.
void ImproveByLargeOnes(absl::Span<const LiveRange> ranges, int64_t bound, int64_t target,
                        Assignment& best) {
  constexpr size_t kMaxLarge = 1000;
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
  size_t before_large = 0;
  for (const int64_t share : {100, 300, 1000}) {
    if (best.bytes <= target) return;
    std::vector<int32_t> large, small;
    for (int32_t id = 0; id < static_cast<int32_t>(ranges.size()); ++id) {
      (ranges[id].bytes >= bound / share ? large : small).push_back(id);
    }
    if (large.empty() || large.size() > kMaxLarge || large.size() == before_large) continue;
    before_large = large.size();  // as many as before are the same ones
    std::stable_sort(small.begin(), small.end(), orders[0]);
    int64_t least = std::numeric_limits<int64_t>::max();
    std::vector<int32_t> order;
    NextOrders tried;
    for (const Before& before : orders) {
      std::vector<int32_t> found = RepairedOrder(ranges, large, bound, before, tried, least);
      if (!found.empty()) order = std::move(found);
    }
    order.insert(order.end(), small.begin(), small.end());
    Assignment assignment = AssignInOrder(ranges, order, Fit::kLowest, best.bytes);
    if (assignment.bytes < best.bytes) best = std::move(assignment);
  }
}

}  // namespace

int64_t LiveBytesBound(absl::Span<const LiveRange> ranges) {
  std::vector<std::pair<int32_t, int64_t>> changes;  // step, bytes
  changes.reserve(2 * ranges.size());
  for (const LiveRange& item : ranges) {
    changes.emplace_back(item.first, item.bytes);
    changes.emplace_back(item.last + 1, -item.bytes);
  }
  std::sort(changes.begin(), changes.end());  // at one step, ranges end before others begin
  int64_t live = 0, most = 0;
  for (const auto& [step, bytes] : changes) {
    live += bytes;
    most = std::max(most, live);
  }
  return most;
}

Assignment AssignOffsets(absl::Span<const LiveRange> ranges) {
  const int64_t bound = LiveBytesBound(ranges);
  const Walk forward = MakeWalk(ranges, /*backward=*/false);
  Assignment best;
  best.bytes = std::numeric_limits<int64_t>::max();
  PackAll(ranges, forward, best);
  if (best.bytes == bound) return best;
  const std::array<Walk, 2> walks = {forward, MakeWalk(ranges, /*backward=*/true)};
  PackAll(ranges, walks[1], best);
  if (ranges.size() <= kMaxRangesForPairs) ImproveByPairs(ranges, bound, best);
  // With many ranges, the last few percent are not worth the time.
  const int64_t target = bound + (ranges.size() <= kMaxRangesForPairs ? bound / 100 : bound / 20);
  ImproveFromBothEnds(ranges, walks, target, best);
  if (ranges.size() <= kMaxRangesForPairs) ImproveByLargeOnes(ranges, bound, target, best);
  return best;
}

}  // namespace tessera
