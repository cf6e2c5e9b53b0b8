// Which instruction must come after which: what passes that move instructions go by.
#ifndef TESSERA_CORE_PROGRAM_DEPENDENCIES_H_
#define TESSERA_CORE_PROGRAM_DEPENDENCIES_H_

#include <cstdint>
#include <vector>

#include "core/program/program.h"

namespace tessera {

// predecessors[i]: the instructions that must run before instruction i, sorted, each once. Because
// it reads (a part of) what they write; because of an order edge; or because it leaves a state
// whose given value they read and now stand before it.
std::vector<std::vector<int32_t>> Predecessors(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_DEPENDENCIES_H_
