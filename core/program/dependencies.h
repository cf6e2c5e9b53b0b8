// Which instruction must come after which, for passes that move instructions.
#ifndef TESSERA_CORE_PROGRAM_DEPENDENCIES_H_
#define TESSERA_CORE_PROGRAM_DEPENDENCIES_H_

#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace tessera {

// predecessors[i]: the instructions that must run before instruction i, sorted, each once: those
// that write (a part of) what it reads, those that it has an order edge to, those before it that
// read or write bytes that it gives to another tensor, and, if it updates a state, those before it
// that read the state's input.
std::vector<std::vector<int32_t>> Predecessors(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_DEPENDENCIES_H_
