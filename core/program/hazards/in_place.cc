#include "core/program/hazards/in_place.h"

namespace tessera {

std::vector<std::pair<int, int>> InPlacePairs(const Program& program,
                                              const Instruction& instruction) {
  if (program.Communicates(instruction)) {
    const CollectiveOperation operation = program.collectives[instruction.collective].operation;
    const bool allowed = operation == CollectiveOperation::kAllReduce ||
                         operation == CollectiveOperation::kBroadcast;
    return allowed ? std::vector<std::pair<int, int>>{{0, 0}} : std::vector<std::pair<int, int>>();
  }
  if (instruction.kind != InstructionKind::kKernel) return {};
  const PlannedKernel& planned = program.KernelOf(instruction);
  const KernelRequest& request = planned.request;
  if (!request.epilogues.empty()) return {};
  return planned.op->InPlace({request.inputs, request.outputs, request.attributes});
}

}  // namespace tessera
