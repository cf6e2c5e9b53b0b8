#include "core/program/memory_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/kernels/interface/backend.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// Above this the placements that look at pairs are left out.
constexpr size_t kMostForPairs = 20000;

int64_t Align(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Places lifetimes one after another in the given order, each in the tightest gap that is free
// during its whole life.
Placement PlaceInOrder(absl::Span<const Lifetime> lifetimes, const std::vector<int32_t>& order) {
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<int32_t> placed;  // sorted by offset
  placed.reserve(lifetimes.size());
  for (int32_t id : order) {
    const Lifetime& item = lifetimes[id];
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    int64_t end = 0;  // of what meets it in time, so far
    for (int32_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < item.first || item.last < o.first) continue;
      const int64_t gap = placement.offsets[other] - end;
      if (gap >= item.bytes && gap < best_gap) {
        best_gap = gap;
        best_offset = end;
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

// Walks through time with a list of free gaps, as an allocator would: n log n.
Placement PlaceInTime(absl::Span<const Lifetime> lifetimes) {
  Placement placement;
  placement.offsets.assign(lifetimes.size(), 0);
  std::vector<int32_t> begins(lifetimes.size()), ends(lifetimes.size());
  std::iota(begins.begin(), begins.end(), 0);
  ends = begins;
  std::stable_sort(begins.begin(), begins.end(), [&](int32_t a, int32_t b) {
    return lifetimes[a].first != lifetimes[b].first ? lifetimes[a].first < lifetimes[b].first
                                                    : lifetimes[a].bytes > lifetimes[b].bytes;
  });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](int32_t a, int32_t b) { return lifetimes[a].last < lifetimes[b].last; });
  std::map<int64_t, int64_t> gaps;               // offset -> bytes
  std::multimap<int64_t, int64_t> gaps_by_size;  // bytes -> offset
  const auto remove_by_size = [&](int64_t offset, int64_t bytes) {
    for (auto it = gaps_by_size.lower_bound(bytes); it != gaps_by_size.end(); ++it) {
      if (it->second == offset) {
        gaps_by_size.erase(it);
        return;
      }
    }
  };
  const auto add_gap = [&](int64_t offset, int64_t bytes) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + bytes) {
      bytes += next->second;
      remove_by_size(next->first, next->second);
      next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        remove_by_size(previous->first, previous->second);
        gaps.erase(previous);
      }
    }
    gaps.emplace(offset, bytes);
    gaps_by_size.emplace(bytes, offset);
  };
  size_t next_end = 0;
  for (int32_t id : begins) {
    const Lifetime& item = lifetimes[id];
    for (; next_end < ends.size() && lifetimes[ends[next_end]].last < item.first; ++next_end) {
      add_gap(placement.offsets[ends[next_end]], lifetimes[ends[next_end]].bytes);
    }
    auto fit = gaps_by_size.lower_bound(item.bytes);
    if (fit != gaps_by_size.end()) {
      const int64_t offset = fit->second;
      const int64_t bytes = fit->first;
      gaps_by_size.erase(fit);
      gaps.erase(offset);
      placement.offsets[id] = offset;
      if (bytes > item.bytes) add_gap(offset + item.bytes, bytes - item.bytes);
      continue;
    }
    // None is large enough: the last gap, if it lies at the end, is made longer.
    int64_t offset = placement.bytes;
    if (!gaps.empty()) {
      auto last = std::prev(gaps.end());
      if (last->first + last->second == placement.bytes) {
        offset = last->first;
        remove_by_size(last->first, last->second);
        gaps.erase(last);
      }
    }
    placement.offsets[id] = offset;
    placement.bytes = offset + item.bytes;
  }
  return placement;
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
  Placement best = PlaceInTime(lifetimes);
  if (lifetimes.size() > kMostForPairs) return best;
  const int64_t bound = LiveBytesBound(lifetimes);
  const auto length = [&](int32_t id) {
    return static_cast<int64_t>(lifetimes[id].last) - lifetimes[id].first + 1;
  };
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
  return best;
}

absl::Status StateLayout::Add(const Program& program) {
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.state) continue;
    auto [it, inserted] = places_.try_emplace(buffer.path, Place{0, buffer.bytes});
    if (!inserted) {
      if (it->second.bytes != buffer.bytes) {
        return absl::InvalidArgumentError(
            absl::StrCat("state '", buffer.path, "' has ", buffer.bytes, " bytes in program '",
                         program.name, "' and ", it->second.bytes, " in another"));
      }
      continue;
    }
    it->second.offset = bytes_ + fence_bytes_;
    bytes_ += Align(buffer.bytes) + 2 * fence_bytes_;
  }
  return absl::OkStatus();
}

int64_t StateLayout::OffsetOf(const std::string& path) const {
  auto it = places_.find(path);
  TESSERA_CHECK(it != places_.end()) << path;
  return it->second.offset;
}

void PlanMemory(const StateLayout& states, Program& program) {
  const int64_t fence = states.fence_bytes();
  std::vector<Lifetime> lifetimes;
  std::vector<int32_t> buffer_of;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer& buffer = program.buffers[i];
    if (buffer.state) {
      buffer.offset = states.OffsetOf(buffer.path);
      continue;
    }
    // A buffer of no bytes is given a place too, so that its address is one of the arena's.
    lifetimes.push_back(
        {std::max(Align(buffer.bytes), kBufferAlignment) + 2 * fence, buffer.first, buffer.last});
    buffer_of.push_back(static_cast<int32_t>(i));
  }
  const Placement placement = PlaceLifetimes(lifetimes);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    program.buffers[buffer_of[i]].offset = states.bytes() + placement.offsets[i] + fence;
  }
  program.arena_bytes = states.bytes() + placement.bytes;
}

MemoryReport ReportMemory(const Program& program) {
  const int32_t count = static_cast<int32_t>(program.instructions.size());
  std::vector<int64_t> change(count + 3, 0);
  for (const Buffer& buffer : program.buffers) {
    const int64_t bytes = Align(buffer.bytes);
    change[buffer.first + 1] += bytes;
    change[buffer.last + 2] -= bytes;
  }
  MemoryReport report;
  report.arena_bytes = program.arena_bytes;
  int64_t live = 0;
  for (int32_t i = -1; i <= count; ++i) {
    live += change[i + 1];
    if (live > report.live_bytes) {
      report.live_bytes = live;
      report.peak_instruction = i;
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.first <= report.peak_instruction && report.peak_instruction <= buffer.last) {
      report.bytes_at_peak[static_cast<size_t>(buffer.category)] += Align(buffer.bytes);
    }
  }
  return report;
}

}  // namespace tessera
