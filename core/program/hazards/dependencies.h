// The dependencies between instructions, for passes that move instructions.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_DEPENDENCIES_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_DEPENDENCIES_H_

#include "core/program/hazards/index_lists.h"
#include "core/program/program.h"

namespace tessera {

// Returns for each instruction i the instructions that must run before it, sorted and without
// duplicates:
// - those that write any of the bytes that it reads,
// - those that it has an order edge to,
// - earlier ones that read or write bytes which it overwrites with another tensor,
// - if it updates a state, earlier ones that read the state's input.
IndexLists<InstructionId, InstructionId> Predecessors(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_DEPENDENCIES_H_
