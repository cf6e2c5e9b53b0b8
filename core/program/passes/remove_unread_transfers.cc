#include <algorithm>
#include <utility>
#include <vector>

#include "core/program/passes/communication.h"

namespace tessera {
namespace {

bool IsTransfer(const Program& program, const Instruction& instruction) {
  return program.Communicates(instruction) || instruction.kind == InstructionKind::kCopy;
}

}  // namespace

void RemoveUnreadTransfers(Program& program) {
  std::vector<bool> read(program.values.size(), false);  // by tensor
  const auto mark = [&](int32_t value) { read[program.TensorOf(value)] = true; };
  for (const NamedValue& output : program.outputs) mark(output.value);
  for (const ProgramState& state : program.states) {
    if (state.updated != kNone) mark(state.updated);
  }
  std::vector<Instruction> kept;
  kept.reserve(program.instructions.size());
  for (size_t i = program.instructions.size(); i-- > 0;) {
    Instruction& instruction = program.instructions[i];
    const bool is_read = std::any_of(instruction.outputs.begin(), instruction.outputs.end(),
                                     [&](int32_t value) { return read[program.TensorOf(value)]; });
    if (!is_read && IsTransfer(program, instruction)) continue;
    for (const int32_t value : instruction.inputs) mark(value);
    for (const int32_t value : instruction.after) mark(value);
    kept.push_back(std::move(instruction));
  }
  std::reverse(kept.begin(), kept.end());
  program.instructions = std::move(kept);
}

}  // namespace tessera
