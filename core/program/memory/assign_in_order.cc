#include "core/program/memory/assign_in_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tessera {
namespace {

// Ranges that have an offset, sorted by it. They lie in chunks, so that one is added without moving
// all behind it.
class AssignedRanges {
 public:
  // Returns the offset of the tightest (or lowest) gap that is free during the whole live range; if
  // there is none, the end of all ranges that overlap it in time.
  int64_t FindOffset(const LiveRange& item, Fit fit) const {
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    int64_t end = 0;  // of the ranges that overlap it in time, so far
    for (const Chunk& chunk : chunks_) {
      for (const Assigned& other : chunk) {
        if (other.last < item.first || item.last < other.first) continue;
        const int64_t gap = other.offset - end;
        if (gap >= item.bytes && gap < best_gap) {
          best_gap = gap;
          best_offset = end;
          if (fit == Fit::kLowest) return best_offset;
        }
        end = std::max(end, other.end);
      }
    }
    return best_offset >= 0 ? best_offset : end;
  }

  void Add(const LiveRange& item, int64_t offset) {
    const Assigned added = {item.first, item.last, offset, offset + item.bytes};
    if (chunks_.empty()) {
      chunks_.push_back({added});
      return;
    }
    const auto starts_after = [](int64_t value, const Chunk& chunk) {
      return value < chunk.front().offset;
    };
    const auto behind = std::upper_bound(chunks_.begin(), chunks_.end(), offset, starts_after);
    const auto found = behind == chunks_.begin() ? behind : behind - 1;
    Chunk& chunk = *found;
    const auto after = [](int64_t value, const Assigned& other) { return value < other.offset; };
    chunk.insert(std::upper_bound(chunk.begin(), chunk.end(), offset, after), added);
    if (chunk.size() < kMaxInChunk) return;
    const auto half = chunk.begin() + kMaxInChunk / 2;
    Chunk upper(half, chunk.end());
    chunk.erase(half, chunk.end());
    chunks_.insert(found + 1, std::move(upper));
  }

 private:
  struct Assigned {
    int32_t first, last;
    int64_t offset, end;
  };
  using Chunk = std::vector<Assigned>;
  static constexpr size_t kMaxInChunk = 256;
  std::vector<Chunk> chunks_;  // none is empty
};

// The live ranges that have an offset, by time: the time is divided into equal periods, and a range
// that lies in one of them is compared with those of this period only. Most ranges are short; if
// they are not, there are fewer periods, because a range is kept in all that it lies in.
class AssignedByPeriod {
 public:
  explicit AssignedByPeriod(absl::Span<const LiveRange> ranges) {
    constexpr int64_t kMaxPeriods = 256;
    constexpr int64_t kMaxPeriodsOfARange = 4;  // on average
    int32_t last = 0;
    int64_t lengths = 1;
    for (const LiveRange& item : ranges) {
      first_ = std::min(first_, item.first);
      last = std::max(last, item.last);
      lengths += int64_t{item.last} - item.first;
    }
    const int64_t steps = int64_t{last} - first_, count = static_cast<int64_t>(ranges.size());
    const int64_t max_periods =
        std::min(kMaxPeriods, kMaxPeriodsOfARange * count * steps / lengths);
    const int64_t periods = std::clamp<int64_t>(count / 64, 1, std::max<int64_t>(max_periods, 1));
    steps_ = steps / periods + 1;
    periods_.resize(periods);
  }

  // Returns the offset that AssignedRanges::FindOffset returns for all ranges.
  int64_t FindOffset(const LiveRange& item, Fit fit) const {
    const size_t period = PeriodOf(item.first);
    return (PeriodOf(item.last) == period ? periods_[period] : all_).FindOffset(item, fit);
  }

  void Add(const LiveRange& item, int64_t offset) {
    all_.Add(item, offset);
    const size_t last = PeriodOf(item.last);
    for (size_t p = PeriodOf(item.first); p <= last; ++p) periods_[p].Add(item, offset);
  }

 private:
  size_t PeriodOf(int32_t step) const { return (int64_t{step} - first_) / steps_; }

  int32_t first_ = 0;
  int64_t steps_ = 1;  // of a period
  AssignedRanges all_;
  std::vector<AssignedRanges> periods_;
};

}  // namespace

Assignment AssignInOrder(absl::Span<const LiveRange> ranges, const std::vector<int32_t>& order,
                         Fit fit, int64_t limit) {
  Assignment assignment;
  assignment.offsets.assign(ranges.size(), 0);
  AssignedByPeriod assigned(ranges);
  for (int32_t id : order) {
    const LiveRange& item = ranges[id];
    const int64_t offset = assigned.FindOffset(item, fit);
    assignment.offsets[id] = offset;
    assignment.bytes = std::max(assignment.bytes, offset + item.bytes);
    if (assignment.bytes >= limit) break;
    assigned.Add(item, offset);
  }
  return assignment;
}

}  // namespace tessera
