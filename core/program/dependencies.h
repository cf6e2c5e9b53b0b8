// Which instruction must come after which, for passes that move instructions.
#ifndef TESSERA_CORE_PROGRAM_DEPENDENCIES_H_
#define TESSERA_CORE_PROGRAM_DEPENDENCIES_H_

#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace tessera {

// predecessors[i] lists the instructions that must run before instruction i, sorted, each once:
// - instructions that write (a part of) its inputs;
// - instructions to which it has an order edge;
// - earlier instructions that read or write bytes which it overwrites with another tensor;
// - if it updates a state, earlier instructions that read the state's input.
std::vector<std::vector<int32_t>> Predecessors(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_DEPENDENCIES_H_
