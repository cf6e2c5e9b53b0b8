#include "core/program/kernels/workspaces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "core/program/ranks/rank_binding.h"
#include "core/program/ranks/rank_extents.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// The part of an instruction that determines the shapes of its work: its kernel and each operand's
// rules.
using WorkOnRanks = std::vector<int32_t>;

WorkOnRanks WorkOf(const Program& program, const Instruction& instruction, bool& differs) {
  WorkOnRanks work = {instruction.kernel};
  for (const std::vector<int32_t>* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const int32_t id : *operands) {
      const ProgramValue& value = program.values[id];
      work.push_back(value.part);
      work.push_back(value.flat);
      differs = differs || value.part != kNone || value.flat != kNone;
    }
  }
  return work;
}

}  // namespace

absl::Status PlanWorkspaces(KernelChooser& chooser, Program& program) {
  for (PlannedKernel& planned : program.kernels) {
    planned.workspace_bytes = chooser.WorkspaceBytes(planned);
  }
  absl::flat_hash_set<WorkOnRanks> seen;
  absl::node_hash_map<MeshCoordinates, RankBinding> ranks;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    bool differs = false;
    WorkOnRanks work = WorkOf(program, instruction, differs);
    if (!differs || !seen.insert(std::move(work)).second) continue;
    std::vector<int32_t> operands = instruction.inputs;
    operands.insert(operands.end(), instruction.outputs.begin(), instruction.outputs.end());
    PlannedKernel& planned = program.kernels[instruction.kernel];
    for (const MeshCoordinates& rank : RanksOfAllShapes(program, operands)) {
      const RankBinding& binding = ranks.try_emplace(rank, &program, rank).first->second;
      if (LocalWorkOf(program, instruction, binding) != LocalWork::kOwn) continue;
      const KernelRequest request = LocalRequest(program, instruction, binding);
      ASSIGN_OR_RETURN(const Kernel* kernel, LocalKernel(chooser.catalogue(), planned, request));
      planned.workspace_bytes =
          std::max(planned.workspace_bytes, kernel->WorkspaceBytes(request, chooser.processor()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
