// Lowering gathers parameters right before they are read, so computation would wait for each
// gather. This pass moves a gather ahead by some groups of parameters, so that it runs while the
// preceding groups are used.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/ids/table.h"
#include "core/program/hazards/dependencies.h"
#include "core/program/passes/communication.h"
#include "core/program/passes/parameter_gathers.h"

namespace tessera {

void PrefetchGathers(int distance, Program& program) {
  const std::vector<ParameterGather> gathers = FindParameterGathers(program);
  const auto predecessors = Predecessors(program);
  const size_t count = program.instructions.size();
  // The gathers that move before each instruction.
  Table<InstructionId, std::vector<InstructionId>> before(count);
  Table<InstructionId, bool> moved(count, false);
  InstructionId earliest(0);  // gathers keep their order
  for (size_t k = 0; k < gathers.size(); ++k) {
    const std::vector<InstructionId>& instructions = gathers[k].instructions;
    const bool first = k < static_cast<size_t>(distance);
    InstructionId position =
        first ? gathers[0].instructions.back() + 1 : gathers[k - distance].first_use;
    position = std::max(position, earliest);
    for (const InstructionId i : instructions) {
      for (const InstructionId predecessor : predecessors[i]) {
        if (absl::c_binary_search(instructions, predecessor)) continue;
        position = std::max(position, predecessor + 1);
      }
    }
    if (position >= instructions.front()) {
      earliest = instructions.back() + 1;
      continue;
    }
    for (const InstructionId i : instructions) {
      before[position].push_back(i);
      moved[i] = true;
    }
    earliest = position;
  }
  Table<InstructionId, Instruction> ordered;
  ordered.reserve(count);
  for (const InstructionId i : program.instructions.ids()) {
    for (const InstructionId gather : before[i]) {
      ordered.push_back(std::move(program.instructions[gather]));
    }
    if (!moved[i]) ordered.push_back(std::move(program.instructions[i]));
  }
  program.instructions = std::move(ordered);
}

}  // namespace tessera
