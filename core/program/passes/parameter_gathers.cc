#include <algorithm>
#include <vector>

#include "core/program/passes/communication.h"
#include "core/program/stream_names.h"

namespace tessera {
namespace {

bool IsGather(const Program& program, const Instruction& instruction) {
  return instruction.kind == InstructionKind::kCollective &&
         program.streams[instruction.stream] == kParameterStream &&
         program.collectives[instruction.collective].operation == CollectiveOperation::kAllGather;
}

// Whether an instruction only moves what it reads: where parts do not follow each other in memory,
// copies put what was gathered in order.
bool Moves(const Program& program, const Instruction& instruction) {
  return instruction.kind != InstructionKind::kKernel ||
         program.KernelOf(instruction).request.op == "copy";
}

}  // namespace

std::vector<ParameterGather> FindParameterGathers(const Program& program) {
  std::vector<ParameterGather> gathers;
  // By tensor: the gather whose result it holds; kNone: none.
  std::vector<int32_t> gather_of(program.values.size(), kNone);
  for (int32_t i = 0; i < static_cast<int32_t>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    const bool moves = Moves(program, instruction);
    for (const int32_t id : instruction.inputs) {
      const int32_t gather = gather_of[program.TensorOf(id)];
      if (gather == kNone) continue;
      ParameterGather& used = gathers[gather];
      if (used.first_use == kNone) used.first_use = i;
      used.last_use = i;
      if (!moves || IsGather(program, instruction)) continue;
      for (const int32_t output : instruction.outputs) gather_of[program.TensorOf(output)] = gather;
    }
    if (!IsGather(program, instruction)) continue;
    gather_of[program.TensorOf(instruction.outputs[0])] = static_cast<int32_t>(gathers.size());
    gathers.push_back({i, kNone, kNone});
  }
  gathers.erase(std::remove_if(gathers.begin(), gathers.end(),
                               [](const ParameterGather& g) { return g.first_use == kNone; }),
                gathers.end());
  return gathers;
}

}  // namespace tessera
