// The full gradients of a flat group take memory from the first one that is computed until they are
// reduced to the parts that ranks hold. Only the update waits for the reduction. So without more
// edges, all full gradients could be in memory at the end of the backward pass.
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/program/passes/communication.h"
#include "core/program/stream_names.h"

namespace tessera {
namespace {

// The first reduce-scatter of a group's gradients, and the instructions that write them, in order.
struct GroupReduction {
  InstructionId instruction;
  std::vector<InstructionId> writes;
};

std::vector<GroupReduction> FindReductions(const Program& program) {
  std::vector<GroupReduction> reductions;
  absl::flat_hash_map<ProgramValueId, std::vector<InstructionId>> writes;  // by tensor
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    for (const ProgramValueId id : instruction.outputs) writes[program.TensorOf(id)].push_back(i);
    if (instruction.kind != InstructionKind::kCollective ||
        program.streams[instruction.stream] != kGradientStream ||
        program.collectives[instruction.collective].operation !=
            CollectiveOperation::kReduceScatter) {
      continue;
    }
    const auto written = writes.find(program.TensorOf(instruction.inputs[0]));
    if (written == writes.end()) continue;
    // Over a second axis, what the reduction over the first one wrote is reduced.
    const bool is_first = absl::c_none_of(written->second, [&program](InstructionId write) {
      return program.instructions[write].kind == InstructionKind::kCollective;
    });
    if (is_first) reductions.push_back({i, written->second});
  }
  return reductions;
}

}  // namespace

void LimitReductions(int in_flight, Program& program) {
  const std::vector<GroupReduction> reductions = FindReductions(program);
  for (size_t k = in_flight; k < reductions.size(); ++k) {
    const GroupReduction& earlier = reductions[k - in_flight];
    const std::vector<InstructionId>& writes = reductions[k].writes;
    // Gradients whose computation begins earlier, such as those of a tied weight, cannot wait for
    // it.
    if (earlier.instruction >= writes.front()) continue;
    // All of them wait: another pass may let any of them run first.
    const ProgramValueId reduced = program.instructions[earlier.instruction].outputs[0];
    for (const InstructionId write : writes) {
      Operands& after = program.instructions[write].after;
      if (!absl::c_linear_search(after, reduced)) after.push_back(reduced);
    }
  }
}

}  // namespace tessera
