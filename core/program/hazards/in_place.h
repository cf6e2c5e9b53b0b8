// Says which outputs of an instruction may use the bytes of an input.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_IN_PLACE_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_IN_PLACE_H_

#include <utility>
#include <vector>

#include "core/program/program.h"

namespace tessera {

// Returns pairs (input, output) of equal types for which the instruction is correct if the output
// is at the address of the input.
std::vector<std::pair<int, int>> InPlacePairs(const Program& program,
                                              const Instruction& instruction);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_IN_PLACE_H_
