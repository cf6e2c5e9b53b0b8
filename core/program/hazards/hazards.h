// Hazards: reasons why an instruction of one stream must wait for one of another stream, because
// both access the same bytes.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_HAZARDS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_HAZARDS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Calls visit(buffer) for the buffer of each operand of an instruction, and of its workspace.
template <typename Visit>
void ForEachBuffer(const Program& program, const Instruction& instruction, const Visit& visit) {
  for (const ProgramValueId id : instruction.inputs) visit(program.values[id].buffer);
  for (const ProgramValueId id : instruction.outputs) visit(program.values[id].buffer);
  if (instruction.workspace != kNone) visit(instruction.workspace);
}

// A reason why `instruction` must not begin before `earlier`, of another stream, has ended.
struct Hazard {
  enum class Kind {
    kRead,       // it reads `value`, which `earlier` writes
    kOverwrite,  // it writes `value` where `earlier` reads or writes
    kOrder,      // it has an order edge to `value`, which `earlier` writes
    kReuse,      // it uses `buffer`, in memory that `earlier` used for another buffer
  };
  Kind kind;
  InstructionId instruction;
  InstructionId earlier;
  ProgramValueId value = kNone;
  BufferId buffer = kNone;
};

// Visits all instructions in order: first begin(i), then visit(hazard) for every hazard of i.
// Returns the first error of `visit`. Does nothing for a Program of one stream.
using HazardVisitor = std::function<absl::Status(const Hazard& hazard)>;
// Hazards within buffers: kRead, kOverwrite, kOrder.
absl::Status VisitDataHazards(const Program& program,
                              const std::function<void(InstructionId instruction)>& begin,
                              const HazardVisitor& visit);
// Hazards between buffers at planned offsets: kReuse.
absl::Status VisitReuseHazards(const Program& program,
                               const std::function<void(InstructionId instruction)>& begin,
                               const HazardVisitor& visit);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_HAZARDS_H_
