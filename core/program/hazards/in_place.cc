#include "core/program/hazards/in_place.h"

#include <algorithm>

#include "absl/algorithm/container.h"

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
  size_t inputs = request.inputs.size();
  for (const Epilogue& epilogue : request.epilogues) inputs -= epilogue.extra_inputs;
  std::vector<std::pair<int, int>> pairs = planned.op->InPlace(
      {absl::MakeConstSpan(request.inputs).first(inputs), request.outputs, request.attributes});
  // The operator's rule says nothing about an output to which epilogues are applied.
  const auto has_epilogue = [&](const std::pair<int, int>& pair) {
    return absl::c_any_of(request.epilogues,
                          [&](const Epilogue& epilogue) { return epilogue.output == pair.second; });
  };
  pairs.erase(std::remove_if(pairs.begin(), pairs.end(), has_epilogue), pairs.end());
  return pairs;
}

}  // namespace tessera
