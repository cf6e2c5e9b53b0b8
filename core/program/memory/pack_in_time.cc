#include "core/program/memory/pack_in_time.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace tessera {
namespace {

// The free memory below the end of the used memory.
class Gaps {
 public:
  // Frees a range, and joins it with the gaps beside it.
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

  // Takes `bytes` from the smallest gap that is large enough and returns the offset; -1 if there is
  // none.
  int64_t Take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return -1;
    const auto [size, offset] = *fit;
    Remove(by_offset_.find(offset));
    if (size > bytes) Add(offset + bytes, size - bytes);
    return offset;
  }

  // Returns the offset of the gap that ends at `end`; `end` if there is none.
  int64_t BeginOfLast(int64_t end) const {
    if (by_offset_.empty()) return end;
    const auto& [offset, bytes] = *by_offset_.rbegin();
    return offset + bytes == end ? offset : end;
  }

  // Returns the same as BeginOfLast(), and removes that gap.
  int64_t TakeLast(int64_t end) {
    const int64_t offset = BeginOfLast(end);
    if (offset != end) Remove(std::prev(by_offset_.end()));
    return offset;
  }

 private:
  using ByOffset = absl::btree_map<int64_t, int64_t>;

  // Removes a gap, and returns the one after it.
  ByOffset::iterator Remove(ByOffset::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    return by_offset_.erase(gap);
  }

  ByOffset by_offset_;                                    // offset -> bytes
  absl::btree_set<std::pair<int64_t, int64_t>> by_size_;  // bytes, offset
};

}  // namespace

Walk MakeWalk(absl::Span<const LiveRange> ranges, bool backward) {
  Walk walk;
  walk.backward = backward;
  walk.moments.reserve(2 * ranges.size());
  for (const LiveRange& item : ranges) {
    walk.moments.push_back(backward ? -item.last : item.first);
    walk.moments.push_back(backward ? -item.first : item.last);
  }
  std::sort(walk.moments.begin(), walk.moments.end());
  walk.moments.erase(std::unique(walk.moments.begin(), walk.moments.end()), walk.moments.end());
  walk.begins.resize(ranges.size());
  std::iota(walk.begins.begin(), walk.begins.end(), 0);
  walk.ends = walk.begins;
  const auto begin = [&](int32_t id) { return backward ? -ranges[id].last : ranges[id].first; };
  const auto end = [&](int32_t id) { return backward ? -ranges[id].first : ranges[id].last; };
  std::stable_sort(walk.begins.begin(), walk.begins.end(), [&](int32_t a, int32_t b) {
    return begin(a) != begin(b) ? begin(a) < begin(b) : ranges[a].bytes > ranges[b].bytes;
  });
  std::stable_sort(walk.ends.begin(), walk.ends.end(),
                   [&](int32_t a, int32_t b) { return end(a) < end(b); });
  int64_t live = 0;
  auto next_begin = walk.begins.begin(), next_end = walk.ends.begin();
  for (const int32_t moment : walk.moments) {
    for (; next_end != walk.ends.end() && end(*next_end) < moment; ++next_end) {
      live -= ranges[*next_end].bytes;
    }
    for (; next_begin != walk.begins.end() && begin(*next_begin) == moment; ++next_begin) {
      live += ranges[*next_begin].bytes;
    }
    walk.live_bytes.push_back(live);
  }
  return walk;
}

Packed PackInTime(absl::Span<const LiveRange> ranges, const Walk& walk,
                  const std::vector<bool>& in_set, bool chosen, int64_t fewer_than) {
  const auto begin = [&](int32_t id) {
    return walk.backward ? -ranges[id].last : ranges[id].first;
  };
  const auto end = [&](int32_t id) { return walk.backward ? -ranges[id].first : ranges[id].last; };
  Packed packed;
  Assignment& assignment = packed.assignment;
  assignment.offsets.assign(ranges.size(), 0);
  packed.heights.reserve(walk.moments.size());
  Gaps gaps;
  int64_t live = 0;
  auto next_begin = walk.begins.begin(), next_end = walk.ends.begin();
  for (size_t m = 0; m < walk.moments.size(); ++m) {
    const int32_t moment = walk.moments[m];
    for (; next_end != walk.ends.end() && end(*next_end) < moment; ++next_end) {
      if (in_set[*next_end] != chosen) continue;
      live -= ranges[*next_end].bytes;
      gaps.Add(assignment.offsets[*next_end], ranges[*next_end].bytes);
    }
    for (; next_begin != walk.begins.end() && begin(*next_begin) == moment; ++next_begin) {
      if (in_set[*next_begin] != chosen) continue;
      const int64_t bytes = ranges[*next_begin].bytes;
      live += bytes;
      int64_t offset = gaps.Take(bytes);
      if (offset < 0) {
        offset = gaps.TakeLast(assignment.bytes);
        assignment.bytes = offset + bytes;
      }
      assignment.offsets[*next_begin] = offset;
    }
    packed.heights.push_back(gaps.BeginOfLast(assignment.bytes));
    if (packed.heights.back() + walk.live_bytes[m] - live >= fewer_than) return packed;
  }
  packed.complete = true;
  return packed;
}

}  // namespace tessera
