#include "core/program/kernels/kernel_uses.h"

#include "absl/algorithm/container.h"

namespace tessera {
namespace {

// Adds the positions of operands that are not row-major to `positions`.
void AddStrided(const Program& program, absl::Span<const ProgramValueId> operands,
                std::vector<int>& positions) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const int position = static_cast<int>(i);
    if (!IsRowMajorOnAllRanks(program, operands[i]) &&
        !absl::c_linear_search(positions, position)) {
      positions.push_back(position);
    }
  }
}

}  // namespace

bool IsRowMajorOnAllRanks(const Program& program, ProgramValueId id) {
  const ProgramValue& value = program.values[id];
  if (value.packed) return true;
  return IsRowMajor(value.type.shape, value.strides) &&
         (value.part == kNone || !program.parts[value.part].Ragged(program.mesh));
}

KernelUses::KernelUses(const Program& program) : program_(program), uses_(program.kernels.size()) {
  for (const InstructionId id : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[id];
    if (instruction.kind != InstructionKind::kKernel) continue;
    Uses& uses = uses_[instruction.kernel];
    uses.instructions.push_back(id);
    AddStrided(program, instruction.inputs, uses.strided_inputs);
    AddStrided(program, instruction.outputs, uses.strided_outputs);
  }
}

std::vector<const Kernel*> KernelUses::CandidatesFor(KernelId kernel,
                                                     const KernelCatalogue& catalogue) const {
  const Uses& uses = uses_[kernel];
  std::vector<const Kernel*> candidates;
  for (const Kernel* each : CandidateKernels(catalogue, program_.kernels[kernel].request)) {
    const bool takes_inputs =
        absl::c_all_of(uses.strided_inputs, [each](int i) { return each->StridedInput(i); });
    const bool takes_outputs =
        absl::c_all_of(uses.strided_outputs, [each](int i) { return each->StridedOutput(i); });
    if (takes_inputs && takes_outputs) candidates.push_back(each);
  }
  return candidates;
}

}  // namespace tessera
