#include <algorithm>
#include <utility>
#include <vector>

#include "core/ids/table.h"
#include "core/program/passes/communication.h"

namespace tessera {
namespace {

bool IsTransfer(const Program& program, const Instruction& instruction) {
  return program.Communicates(instruction) || instruction.kind == InstructionKind::kCopy;
}

}  // namespace

void RemoveUnreadTransfers(Program& program) {
  Table<ProgramValueId, bool> read(program.values.size(), false);  // by tensor
  const auto mark = [&](ProgramValueId value) { read[program.TensorOf(value)] = true; };
  for (const NamedValue& output : program.outputs) mark(output.value);
  for (const ProgramState& state : program.states) {
    if (state.updated != kNone) mark(state.updated);
  }
  Table<InstructionId, Instruction> kept;
  kept.reserve(program.instructions.size());
  for (auto it = program.instructions.rbegin(); it != program.instructions.rend(); ++it) {
    Instruction& instruction = *it;
    const bool is_read =
        std::any_of(instruction.outputs.begin(), instruction.outputs.end(),
                    [&](ProgramValueId value) { return read[program.TensorOf(value)]; });
    if (!is_read && IsTransfer(program, instruction)) continue;
    for (const ProgramValueId value : instruction.inputs) mark(value);
    for (const ProgramValueId value : instruction.after) mark(value);
    kept.push_back(std::move(instruction));
  }
  std::reverse(kept.begin(), kept.end());
  program.instructions = std::move(kept);
}

}  // namespace tessera
