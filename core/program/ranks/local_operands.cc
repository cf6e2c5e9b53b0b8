#include "core/program/ranks/local_operands.h"

#include <algorithm>

namespace tessera {

LocalOperands OperandsOf(const Instruction& instruction, const RankBinding& rank,
                         const std::function<TensorView(ProgramValueId)>& view) {
  LocalOperands operands;
  for (const ProgramValueId id : instruction.inputs) operands.inputs.push_back(view(id));
  for (const ProgramValueId id : instruction.outputs) operands.outputs.push_back(view(id));
  const auto differs = [&rank](ProgramValueId id) { return rank.Differs(id); };
  if (std::any_of(instruction.inputs.begin(), instruction.inputs.end(), differs) ||
      std::any_of(instruction.outputs.begin(), instruction.outputs.end(), differs)) {
    for (const ProgramValueId id : instruction.inputs) {
      operands.input_regions.push_back(rank.RegionOf(id));
    }
    for (const ProgramValueId id : instruction.outputs) {
      operands.output_regions.push_back(rank.RegionOf(id));
    }
  }
  if (instruction.draw != kNone) {
    operands.draw = std::make_unique<RandomDraw>(rank.DrawOf(instruction));
  }
  return operands;
}

}  // namespace tessera
