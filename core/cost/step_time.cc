#include "core/cost/step_time.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/ids/table.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// Returns the instructions that communicate, or those that do not, in the order in which they
// begin.
std::vector<InstructionId> InOrder(const Program& program,
                                   const Table<InstructionId, TimeSpan>& times, bool communicate) {
  std::vector<InstructionId> order;
  for (const InstructionId i : times.ids()) {
    if (program.Communicates(program.instructions[i]) == communicate) {
      order.push_back(i);
    }
  }
  const auto before = [&](InstructionId a, InstructionId b) {
    return times[a].begin < times[b].begin;
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::stable_sort(order.begin(), order.end(), before);
  }
  return order;
}

// Returns the spans in which at least one of these instructions runs: disjoint, in order.
std::vector<TimeSpan> SpansOf(const Program& program, const Table<InstructionId, TimeSpan>& times,
                              bool communicate) {
  std::vector<TimeSpan> spans;
  for (const InstructionId i : InOrder(program, times, communicate)) {
    if (spans.empty() || times[i].begin > spans.back().end) {
      spans.push_back(times[i]);
    } else {
      spans.back().end = std::max(spans.back().end, times[i].end);
    }
  }
  return spans;
}

}  // namespace

std::vector<TimeSpan> CommunicatingSpans(const Program& program,
                                         const Table<InstructionId, TimeSpan>& times) {
  return SpansOf(program, times, /*communicate=*/true);
}

double StepSeconds(const Table<InstructionId, TimeSpan>& times) {
  double end = 0;
  for (const TimeSpan& time : times) end = std::max(end, time.end);
  return end;
}

Overlap OverlapOf(const Program& program, const Table<InstructionId, TimeSpan>& times) {
  TESSERA_CHECK(times.size() == program.instructions.size());
  const std::vector<TimeSpan> computing = SpansOf(program, times, /*communicate=*/false);
  Overlap overlap;
  for (const TimeSpan& span : computing) overlap.computation_seconds += span.seconds();
  overlap.exposed_seconds.resize(times.size(), 0);
  double counted_until = 0;  // exposed time before this has been counted
  auto busy = computing.begin();
  for (const InstructionId i : InOrder(program, times, /*communicate=*/true)) {
    double from = std::max(times[i].begin, counted_until);
    while (from < times[i].end) {
      while (busy != computing.end() && busy->end <= from) ++busy;
      const double next = busy == computing.end() ? times[i].end : busy->begin;
      overlap.exposed_seconds[i] += std::max(std::min(next, times[i].end) - from, 0.0);
      if (next >= times[i].end) break;
      from = std::max(from, busy->end);
    }
    counted_until = std::max(counted_until, times[i].end);
  }
  return overlap;
}

}  // namespace tessera
