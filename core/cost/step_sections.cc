#include "core/cost/step_sections.h"

#include <algorithm>
#include <numeric>

#include "core/cost/instruction_prices.h"
#include "core/program/memory/memory_plan.h"

namespace tessera {
namespace {

// Returns the live bytes on the device at each instruction.
Table<InstructionId, int64_t> LiveBytes(const Program& program) {
  const std::vector<BytesByCategory> by_time = LiveBytesByTime(program);
  Table<InstructionId, int64_t> live(program.instructions.size(), 0);
  for (const InstructionId i : live.ids()) {
    const BytesByCategory& categories = by_time[i.index() + 1];  // element 0 is of time -1
    live[i] = std::accumulate(categories.begin(), categories.end(), int64_t{0});
  }
  return live;
}

bool BelongsTo(const StepSection& section, const Instruction& instruction) {
  return section.phase == instruction.phase && section.recomputed == instruction.recomputed &&
         section.block == instruction.block;
}

}  // namespace

std::vector<StepSection> SectionsOf(const Program& program,
                                    const Table<InstructionId, TimeSpan>& times) {
  const Table<InstructionId, int64_t> live = LiveBytes(program);
  std::vector<StepSection> sections;
  int64_t between = 0;  // the most live bytes since the last instruction of a section
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    between = std::max(between, live[i]);
    if (program.Communicates(instruction) || HostCopyTo(program, instruction).has_value()) continue;
    if (sections.empty() || !BelongsTo(sections.back(), instruction)) {
      sections.push_back({.phase = instruction.phase,
                          .recomputed = instruction.recomputed,
                          .block = instruction.block,
                          .time = times[i],
                          .peak_bytes = live[i]});
    }
    StepSection& section = sections.back();
    section.time.end = std::max(section.time.end, times[i].end);
    section.computation_seconds += times[i].seconds();
    section.peak_bytes = std::max(section.peak_bytes, between);
    section.end_bytes = live[i];
    between = 0;
  }
  return sections;
}

}  // namespace tessera
