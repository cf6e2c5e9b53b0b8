#include "core/program/kernels/workspaces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "core/ids/table.h"
#include "core/program/ranks/rank_binding.h"
#include "core/program/ranks/rank_extents.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// The part of an instruction that determines the shapes of its work: its kernel and each operand's
// rules.
using WorkOnRanks = std::pair<KernelId, std::vector<std::pair<PartId, FlatId>>>;

WorkOnRanks WorkOf(const Program& program, const Instruction& instruction) {
  WorkOnRanks work = {instruction.kernel, {}};
  for (const Operands* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const ProgramValueId id : *operands) {
      const ProgramValue& value = program.values[id];
      work.second.emplace_back(value.part, value.flat);
    }
  }
  return work;
}

// Returns whether ranks may do work of different shapes.
bool MayDiffer(const Program& program, const Instruction& instruction) {
  const auto differs = [&](ProgramValueId id) {
    const ProgramValue& value = program.values[id];
    return value.part != kNone || value.flat != kNone;
  };
  return absl::c_any_of(instruction.inputs, differs) ||
         absl::c_any_of(instruction.outputs, differs);
}

}  // namespace

absl::Status PlanWorkspaces(KernelChooser& chooser, Program& program) {
  for (PlannedKernel& planned : program.kernels) {
    planned.workspace_bytes = chooser.WorkspaceBytes(planned);
  }
  absl::flat_hash_set<WorkOnRanks> seen;
  const Table<FlatId, PartId> parts_of_flats = RankBinding::PartsOfFlats(program);
  absl::node_hash_map<MeshCoordinates, RankBinding> ranks;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != InstructionKind::kKernel) continue;
    if (!MayDiffer(program, instruction)) continue;
    if (!seen.insert(WorkOf(program, instruction)).second) continue;
    Operands operands = instruction.inputs;
    operands.insert(operands.end(), instruction.outputs.begin(), instruction.outputs.end());
    PlannedKernel& planned = program.kernels[instruction.kernel];
    for (const MeshCoordinates& rank : RanksOfAllShapes(program, operands)) {
      const RankBinding& binding =
          ranks.try_emplace(rank, &program, rank, parts_of_flats).first->second;
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
