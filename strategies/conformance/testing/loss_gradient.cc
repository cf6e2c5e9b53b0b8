#include "strategies/conformance/testing/loss_gradient.h"

namespace tessera::strategy {

using Instruction = ProgramProto::Instruction;

int MicroBatches(const ProgramProto& program) {
  int count = 0;
  for (const ProgramProto::NamedValue& input : program.inputs()) {
    if (input.name().rfind("tokens@", 0) == 0) ++count;
  }
  return count;
}

void SetLossGradient(double value, ProgramProto& program) {
  for (Instruction& instruction : *program.mutable_instructions()) {
    if (instruction.kind() != Instruction::KERNEL || instruction.outputs_size() == 0) continue;
    if (program.values(instruction.outputs(0)).path() != "loss.divide.grad") continue;
    ProgramProto::Kernel fill = program.kernels(instruction.kernel());
    for (AttributeProto& attribute : *fill.mutable_request()->mutable_attributes()) {
      if (attribute.name() == "value") attribute.set_double_value(value);
    }
    instruction.set_kernel(program.kernels_size());
    *program.add_kernels() = fill;
  }
}

}  // namespace tessera::strategy
