// Tells which outputs of an instruction may overwrite an input.
#ifndef TESSERA_CORE_PROGRAM_IN_PLACE_H_
#define TESSERA_CORE_PROGRAM_IN_PLACE_H_

#include <utility>
#include <vector>

#include "core/program/program.h"

namespace tessera {

// Pairs (input, output) of equal types: the instruction is correct if the output has the address of
// the input.
std::vector<std::pair<int, int>> InPlacePairs(const Program& program,
                                              const Instruction& instruction);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_IN_PLACE_H_
