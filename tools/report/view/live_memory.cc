#include "tools/report/view/live_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

// Returns all points of a step: one before it, one for each instruction, and one behind it.
std::vector<LivePoint> AllPoints(const Program& program,
                                 const Table<InstructionId, TimeSpan>& times, MemorySide side) {
  const std::vector<BytesByCategory> live = LiveBytesByTime(program, side);
  std::vector<LivePoint> points(live.size());
  double now = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (i > 0 && i + 1 < live.size()) now = std::max(now, times[InstructionId(i - 1)].begin);
    points[i] = {now, live[i]};
  }
  points.back().seconds = std::max(now, StepSeconds(times));
  return points;
}

// Returns the points to keep, in order: the first and the last, and those with the most and the
// fewest bytes of each interval.
std::vector<size_t> KeptPoints(const std::vector<LivePoint>& points, int max_points) {
  std::vector<size_t> kept;
  if (points.size() <= static_cast<size_t>(max_points)) {
    kept.resize(points.size());
    std::iota(kept.begin(), kept.end(), size_t{0});
    return kept;
  }
  const int intervals = std::max((max_points - 2) / 2, 1);
  const double width = points.back().seconds / intervals;
  const auto interval_of = [&](size_t i) {
    return width > 0 ? std::min(static_cast<int>(points[i].seconds / width), intervals - 1) : 0;
  };
  const auto keep = [&kept](size_t i) {
    if (kept.empty() || kept.back() < i) kept.push_back(i);
  };
  keep(0);
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin, most = begin, fewest = begin;
    for (; end < points.size() && interval_of(end) == interval_of(begin); ++end) {
      if (points[end].total() > points[most].total()) most = end;
      if (points[end].total() < points[fewest].total()) fewest = end;
    }
    keep(std::min(most, fewest));
    keep(std::max(most, fewest));
    begin = end;
  }
  keep(points.size() - 1);
  return kept;
}

LiveMemory OnSide(const Program& program, const Table<InstructionId, TimeSpan>& times,
                  MemorySide side, int max_points) {
  const std::vector<LivePoint> all = AllPoints(program, times, side);
  LiveMemory memory;
  memory.side = side;
  for (const size_t i : KeptPoints(all, max_points)) {
    const bool last = i + 1 == all.size();
    if (!last && !memory.points.empty() && memory.points.back().bytes == all[i].bytes) continue;
    memory.points.push_back(all[i]);
    if (all[i].total() > memory.peak_point().total()) memory.peak = memory.points.size() - 1;
  }
  return memory;
}

}  // namespace

int64_t LivePoint::total() const { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

std::vector<LiveMemory> LiveMemoryOf(const Program& program,
                                     const Table<InstructionId, TimeSpan>& times, int max_points) {
  std::vector<LiveMemory> memories = {OnSide(program, times, MemorySide::kDevice, max_points)};
  LiveMemory host = OnSide(program, times, MemorySide::kHost, max_points);
  if (host.peak_point().total() > 0) memories.push_back(std::move(host));
  return memories;
}

}  // namespace tessera
