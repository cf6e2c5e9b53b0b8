#include "core/cost/limits.h"

#include <algorithm>

namespace tessera {

ProgramWork WorkOf(const Program& program) {
  ProgramWork work;
  for (const Instruction& instruction : program.instructions) {
    const OpCost& cost = instruction.cost;
    if (!instruction.recomputed) work.model_flops += cost.flops - cost.recomputed_flops;
    work.executed_flops += cost.flops;
    work.bytes += cost.bytes;
  }
  return work;
}

double LimitSeconds(const Instruction& instruction, const MachineRates& rates) {
  return std::max(instruction.cost.flops / rates.flops_per_second,
                  instruction.cost.bytes / rates.bytes_per_second);
}

double LimitSeconds(const Program& program, const MachineRates& rates) {
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) {
    seconds += LimitSeconds(instruction, rates);
  }
  return seconds;
}

}  // namespace tessera
