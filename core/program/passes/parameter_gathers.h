// The gathers of parameters in a Program.
//
// Thread safety: pure functions of the Program.
#ifndef TESSERA_CORE_PROGRAM_PASSES_PARAMETER_GATHERS_H_
#define TESSERA_CORE_PROGRAM_PASSES_PARAMETER_GATHERS_H_

#include <vector>

#include "core/program/program.h"

namespace tessera {

// A gather of parameters, with the first and last instruction that read the result.
struct ParameterGather {
  // In order. A gather over several axes has one collective for each axis, with copies between
  // them.
  std::vector<InstructionId> instructions;
  InstructionId first_use;
  InstructionId last_use;
};

// Returns the gathers of parameters that are read, in the order of the Program. Readers of a copy
// of the gathered values count as readers.
std::vector<ParameterGather> FindParameterGathers(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_PARAMETER_GATHERS_H_
