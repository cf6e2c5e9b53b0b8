#include "core/cost/step_time.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/ids/table.h"
#include "core/program/collective_waits.h"
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

}  // namespace

Table<InstructionId, TimeSpan> SimulateStep(const Program& program,
                                            const Table<InstructionId, double>& seconds) {
  TESSERA_CHECK(seconds.size() == program.instructions.size());
  const CollectiveWaits waits = WaitsForCollectives(program);
  Table<InstructionId, TimeSpan> times(seconds.size());
  Table<StreamId, double> stream_free(program.streams.size(), 0);
  double thread_free = 0;  // when the thread can issue the next instruction
  for (const InstructionId i : seconds.ids()) {
    const Instruction& instruction = program.instructions[i];
    for (const InstructionId earlier : waits.before[i]) {
      thread_free = std::max(thread_free, times[earlier].end);
    }
    const double begin = std::max(thread_free, stream_free[instruction.stream]);
    times[i] = {begin, begin + seconds[i]};
    stream_free[instruction.stream] = times[i].end;
    if (!program.Communicates(instruction)) thread_free = times[i].end;
  }
  return times;
}

double StepSeconds(const Table<InstructionId, TimeSpan>& times) {
  double end = 0;
  for (const TimeSpan& time : times) end = std::max(end, time.end);
  return end;
}

Overlap OverlapOf(const Program& program, const Table<InstructionId, TimeSpan>& times) {
  TESSERA_CHECK(times.size() == program.instructions.size());
  std::vector<TimeSpan> computing;  // disjoint, in order
  for (const InstructionId i : InOrder(program, times, /*communicate=*/false)) {
    if (computing.empty() || times[i].begin > computing.back().end) {
      computing.push_back(times[i]);
    } else {
      computing.back().end = std::max(computing.back().end, times[i].end);
    }
  }
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
