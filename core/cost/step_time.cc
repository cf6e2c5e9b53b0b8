#include "core/cost/step_time.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/ids/table.h"
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
  Table<InstructionId, TimeSpan> times(seconds.size());
  Table<StreamId, InstructionId> last(program.streams.size());  // the last instruction of each
  double thread_free = 0;  // when the thread can issue the next instruction
  for (const InstructionId i : seconds.ids()) {
    const Instruction& instruction = program.instructions[i];
    for (const InstructionId earlier : instruction.waits)
      thread_free = std::max(thread_free, times[earlier].end);
    double begin = thread_free;
    InstructionId& previous = last[instruction.stream];
    if (previous != kNone) {
      begin = std::max(begin, times[previous].end);
      if (!FollowsByItself(program, program.instructions[previous], instruction))
        thread_free = begin;
    }
    previous = i;
    times[i] = {begin, begin + seconds[i]};
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
