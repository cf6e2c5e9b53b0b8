#include "core/program/copy_instruction.h"

#include "core/ops/operator_list.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<Instruction> CopyInstruction(const Program& program, KernelChooser& chooser,
                                            int32_t source, int32_t target, Phase phase) {
  Instruction copy;
  copy.op = FindOperator("copy");
  TESSERA_CHECK(copy.op != nullptr);
  copy.path = program.value(target).path;
  copy.inputs = {source};
  copy.outputs = {target};
  copy.phase = phase;
  copy.cost.bytes = 2.0 * static_cast<double>(NumBytes(program.value(source).type));
  ASSIGN_OR_RETURN(copy.kernel, chooser.Choose(program.RequestOf(copy)));
  return copy;
}

}  // namespace tessera
