// Gathers that start early hold memory early. To bound how many groups are gathered at a time, an
// order edge is added from the last use of one group of parameters to the gather of a later group.
// The executor needs no limit of its own.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/ids/table.h"
#include "core/program/passes/communication.h"
#include "core/program/passes/parameter_gathers.h"

namespace tessera {

void LimitGathers(int in_flight, Program& program) {
  const std::vector<ParameterGather> gathers = FindParameterGathers(program);
  const size_t count = program.instructions.size();
  // The gathers that are moved to after each instruction.
  Table<InstructionId, std::vector<InstructionId>> behind(count);
  Table<InstructionId, bool> moved(count, false);
  for (size_t k = in_flight; k < gathers.size(); ++k) {
    const ParameterGather& gather = gathers[k];
    const InstructionId last = gathers[k - in_flight].last_use;
    // If the earlier parameters are still in use at the first use of this group, waiting for them
    // is impossible.
    if (last >= gather.first_use || program.instructions[last].outputs.empty()) continue;
    // If the last use is a collective, the parameter is kept gathered along one axis, and its true
    // last use is not known.
    if (program.Communicates(program.instructions[last])) continue;
    Instruction& first = program.instructions[gather.instructions.front()];
    first.after.push_back(program.instructions[last].outputs[0]);
    for (const InstructionId instruction : gather.instructions) {
      if (instruction > last) break;
      behind[last].push_back(instruction);
      moved[instruction] = true;
    }
  }
  Table<InstructionId, Instruction> ordered;
  ordered.reserve(count);
  for (const InstructionId i : program.instructions.ids()) {
    if (!moved[i]) ordered.push_back(std::move(program.instructions[i]));
    for (const InstructionId gather : behind[i]) {
      ordered.push_back(std::move(program.instructions[gather]));
    }
  }
  program.instructions = std::move(ordered);
}

}  // namespace tessera
