#include "core/program/passes/parameter_gathers.h"

#include <utility>
#include <vector>

#include "core/ids/table.h"
#include "core/program/stream_names.h"

namespace tessera {
namespace {

bool IsGather(const Program& program, const Instruction& instruction) {
  return instruction.kind == InstructionKind::kCollective &&
         program.streams[instruction.stream] == kParameterStream &&
         program.collectives[instruction.collective].operation == CollectiveOperation::kAllGather;
}

// Returns whether an instruction only moves its inputs. If parts are not consecutive in memory,
// copies put the gathered parts in order.
bool OnlyMovesInputs(const Program& program, const Instruction& instruction) {
  return instruction.kind != InstructionKind::kKernel ||
         program.KernelOf(instruction).request.op == "copy";
}

// A gather, as far as it is known so far.
struct Found {
  ParameterGather gather;
  std::vector<InstructionId> copies;  // since its last collective, which only they have read
  bool computed_on = false;           // by a kernel that is not a copy
  int axes = 1;                       // the number of axes that were gathered, one after the other

  // Records that an instruction reads the result; `moves` if it only moves it.
  void AddUse(InstructionId instruction, bool moves) {
    if (gather.first_use == kNone) gather.first_use = instruction;
    gather.last_use = instruction;
    if (moves) copies.push_back(instruction);
    computed_on = computed_on || !moves;
  }
  // Continues the gather along another axis.
  void Extend(InstructionId instruction) {
    for (const InstructionId copy : copies) gather.instructions.push_back(copy);
    gather.instructions.push_back(instruction);
    gather.first_use = gather.last_use = kNone;
    copies.clear();
    ++axes;
  }
};

}  // namespace

std::vector<ParameterGather> FindParameterGathers(const Program& program) {
  std::vector<Found> found;
  // By tensor: the gather whose result it holds (kNone if none), and the number of axes gathered so
  // far.
  Table<ProgramValueId, int> gather_of(program.values.size(), kNone);
  Table<ProgramValueId, int> axes_of(program.values.size(), 0);
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    const bool moves = OnlyMovesInputs(program, instruction);
    if (IsGather(program, instruction)) {
      const ProgramValueId input = program.TensorOf(instruction.inputs[0]);
      const ProgramValueId output = program.TensorOf(instruction.outputs[0]);
      const int source = gather_of[input];
      int& gather = gather_of[output];
      // Otherwise it repeats an inner gather of an array that is kept gathered over the other axes.
      const bool continues = source != kNone && axes_of[input] == found[source].axes;
      if (continues && !found[source].computed_on) {
        gather = source;
        found[source].Extend(i);
        axes_of[output] = found[source].axes;
        continue;
      }
      // An array that is kept gathered over only some of the axes does not count as used in full.
      const bool kept = source != kNone && axes_of[input] < found[source].axes;
      if (source != kNone && !kept) found[source].AddUse(i, /*moves=*/false);
      axes_of[output] = 1;
      gather = static_cast<int>(found.size());
      found.push_back({{{i}, kNone, kNone}, {}, false});
      continue;
    }
    for (const ProgramValueId id : instruction.inputs) {
      const int gather = gather_of[program.TensorOf(id)];
      if (gather == kNone) continue;
      found[gather].AddUse(i, moves);
      if (!moves) continue;
      for (const ProgramValueId output : instruction.outputs) {
        gather_of[program.TensorOf(output)] = gather;
        axes_of[program.TensorOf(output)] = axes_of[program.TensorOf(id)];
      }
    }
  }
  std::vector<ParameterGather> gathers;
  for (Found& candidate : found) {
    if (candidate.gather.first_use != kNone) gathers.push_back(std::move(candidate.gather));
  }
  return gathers;
}

}  // namespace tessera
