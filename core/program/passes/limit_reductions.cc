// The full gradients of a flat group take memory from the first one that is computed until they are
// reduced to the parts that ranks hold. Only the update waits for the reduction. So without more
// edges, all full gradients could be in memory at the end of the backward pass.
#include <algorithm>
#include <vector>

#include "core/program/passes/communication.h"
#include "core/program/stream_names.h"

namespace tessera {
namespace {

// The reduce-scatter of a group's gradients, and the instruction that writes the first of them.
struct GroupReduction {
  int32_t instruction = 0;
  int32_t first_write = 0;
};

std::vector<GroupReduction> FindReductions(const Program& program) {
  std::vector<GroupReduction> reductions;
  std::vector<int32_t> first_write(program.values.size(), kNone);  // by tensor
  for (int32_t i = 0; i < static_cast<int32_t>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const int32_t id : instruction.outputs) {
      int32_t& first = first_write[program.TensorOf(id)];
      if (first == kNone) first = i;
    }
    if (instruction.kind != InstructionKind::kCollective ||
        program.streams[instruction.stream] != kGradientStream ||
        program.collectives[instruction.collective].operation !=
            CollectiveOperation::kReduceScatter) {
      continue;
    }
    const int32_t first = first_write[program.TensorOf(instruction.inputs[0])];
    if (first != kNone) reductions.push_back({i, first});
  }
  return reductions;
}

}  // namespace

void LimitReductions(int in_flight, Program& program) {
  const std::vector<GroupReduction> reductions = FindReductions(program);
  for (size_t k = in_flight; k < reductions.size(); ++k) {
    const GroupReduction& earlier = reductions[k - in_flight];
    // Gradients whose computation begins earlier, such as those of a tied weight, cannot wait for
    // it.
    if (earlier.instruction >= reductions[k].first_write) continue;
    program.instructions[reductions[k].first_write].after.push_back(
        program.instructions[earlier.instruction].outputs[0]);
  }
}

}  // namespace tessera
