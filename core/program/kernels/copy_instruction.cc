#include "core/program/kernels/copy_instruction.h"

#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<Instruction> CopyInstruction(const Program& program, KernelTable& kernels,
                                            ProgramValueId source, ProgramValueId target,
                                            Phase phase) {
  Instruction copy;
  copy.path = program.value(target).path;
  copy.inputs = {source};
  copy.outputs = {target};
  copy.phase = phase;
  copy.cost.bytes = 2.0 * static_cast<double>(NumBytes(program.value(source).type));
  ASSIGN_OR_RETURN(copy.kernel, kernels.FindOrAdd({.op = "copy"}, copy.inputs, copy.outputs));
  return copy;
}

}  // namespace tessera
