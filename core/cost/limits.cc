#include "core/cost/limits.h"

#include <algorithm>

namespace tessera {

ProgramWork WorkOf(const Program& program) {
  ProgramWork work;
  for (const Instruction& instruction : program.instructions) {
    const OpCost& cost = instruction.cost;
    if (!instruction.recomputed) work.model_flops += cost.flops - cost.recomputed_flops;
    work.executed_flops += cost.flops;
    work.bytes += cost.bytes;
  }
  return work;
}

DType MatmulDType(const Program& program) {
  double flops[3] = {};  // of f32, bf16, f16
  const DType dtypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kernel == kNone) continue;
    const KernelRequest& request = program.kernels[instruction.kernel].request;
    if (request.op != "matmul") continue;
    const DType dtype = request.inputs[0].dtype;
    flops[dtype == DType::kBF16 ? 1 : dtype == DType::kF16 ? 2 : 0] += instruction.cost.flops;
  }
  return dtypes[std::max_element(flops, flops + 3) - flops];
}

double LimitSeconds(const Instruction& instruction, const MachineRates& rates) {
  return std::max(instruction.cost.flops / rates.flops_per_second,
                  instruction.cost.bytes / rates.bytes_per_second);
}

double LimitSeconds(const Program& program, const MachineRates& rates) {
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) {
    seconds += LimitSeconds(instruction, rates);
  }
  return seconds;
}

}  // namespace tessera
