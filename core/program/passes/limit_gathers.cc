// Gathers that start early hold memory early. To bound how many groups are gathered at a time, an
// order edge is added from the last use of one group of parameters to the gather of a later group.
// The executor needs no limit of its own.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/program/passes/communication.h"

namespace tessera {

void LimitGathers(int in_flight, Program& program) {
  const std::vector<ParameterGather> gathers = FindParameterGathers(program);
  const size_t count = program.instructions.size();
  // By instruction: the gathers that are moved to after it.
  std::vector<std::vector<int32_t>> behind(count);
  std::vector<bool> moved(count, false);
  for (size_t k = in_flight; k < gathers.size(); ++k) {
    const ParameterGather& gather = gathers[k];
    const int32_t last = gathers[k - in_flight].last_use;
    // If the earlier parameters are still in use at the first use of this group, waiting for them
    // is impossible.
    if (last >= gather.first_use || program.instructions[last].outputs.empty()) continue;
    // If the last use is a collective, the parameter is kept gathered along one axis, and its true
    // last use is not known.
    if (program.Communicates(program.instructions[last])) continue;
    Instruction& first = program.instructions[gather.instructions.front()];
    first.after.push_back(program.instructions[last].outputs[0]);
    for (const int32_t instruction : gather.instructions) {
      if (instruction > last) break;
      behind[last].push_back(instruction);
      moved[instruction] = true;
    }
  }
  std::vector<Instruction> ordered;
  ordered.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (!moved[i]) ordered.push_back(std::move(program.instructions[i]));
    for (const int32_t gather : behind[i]) {
      ordered.push_back(std::move(program.instructions[gather]));
    }
  }
  program.instructions = std::move(ordered);
}

}  // namespace tessera
