#include "core/cost/step_time.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/status/check.h"

namespace tessera {
namespace {

// Returns whether the thread need not wait for `earlier`, because both are collectives of the same
// group, which runs them in order.
bool FollowsByItself(const Program& program, const Instruction& earlier,
                     const Instruction& instruction) {
  return program.Communicates(earlier) && program.Communicates(instruction) &&
         program.collectives[earlier.collective].mesh_axes ==
             program.collectives[instruction.collective].mesh_axes;
}

// Returns the instructions that communicate, or those that do not, in the order in which they
// begin.
std::vector<int32_t> InOrder(const Program& program, absl::Span<const TimeSpan> times,
                             bool communicate) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < times.size(); ++i) {
    if (program.Communicates(program.instructions[i]) == communicate) {
      order.push_back(static_cast<int32_t>(i));
    }
  }
  const auto before = [&](int32_t a, int32_t b) { return times[a].begin < times[b].begin; };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  return order;
}

}  // namespace

std::vector<TimeSpan> SimulateStep(const Program& program, absl::Span<const double> seconds) {
  TESSERA_CHECK(seconds.size() == program.instructions.size());
  std::vector<TimeSpan> times(seconds.size());
  std::vector<int32_t> last(program.streams.size(), kNone);  // the last instruction of each stream
  double issued = 0;                                         // when the thread is free again
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const int32_t earlier : instruction.waits) issued = std::max(issued, times[earlier].end);
    double begin = issued;
    int32_t& previous = last[instruction.stream];
    if (previous != kNone) {
      begin = std::max(begin, times[previous].end);
      if (!FollowsByItself(program, program.instructions[previous], instruction)) issued = begin;
    }
    previous = static_cast<int32_t>(i);
    times[i] = {begin, begin + seconds[i]};
    if (!program.Communicates(instruction)) issued = times[i].end;
  }
  return times;
}

double StepSeconds(absl::Span<const TimeSpan> times) {
  double end = 0;
  for (const TimeSpan& time : times) end = std::max(end, time.end);
  return end;
}

Overlap OverlapOf(const Program& program, absl::Span<const TimeSpan> times) {
  TESSERA_CHECK(times.size() == program.instructions.size());
  std::vector<TimeSpan> computing;  // disjoint, in order
  for (const int32_t i : InOrder(program, times, /*communicate=*/false)) {
    if (computing.empty() || times[i].begin > computing.back().end) {
      computing.push_back(times[i]);
    } else {
      computing.back().end = std::max(computing.back().end, times[i].end);
    }
  }
  Overlap overlap;
  for (const TimeSpan& span : computing) overlap.computation_seconds += span.seconds();
  overlap.exposed_seconds.resize(times.size(), 0);
  double counted = 0;  // the time before this has been counted
  auto busy = computing.begin();
  for (const int32_t i : InOrder(program, times, /*communicate=*/true)) {
    double from = std::max(times[i].begin, counted);
    while (from < times[i].end) {
      while (busy != computing.end() && busy->end <= from) ++busy;
      const double next = busy == computing.end() ? times[i].end : busy->begin;
      overlap.exposed_seconds[i] += std::max(std::min(next, times[i].end) - from, 0.0);
      if (next >= times[i].end) break;
      from = std::max(from, busy->end);
    }
    counted = std::max(counted, times[i].end);
  }
  return overlap;
}

}  // namespace tessera
