// The checks of a Program's instructions that need no other instruction.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_OPERANDS_H_
#define TESSERA_CORE_PROGRAM_VERIFY_OPERANDS_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// How far a Program is: buffers get their memory spaces when they are assigned.
enum class Buffers { kMade, kAssigned };

// Returns Internal, in one line that names the instruction, unless operands have the types of their
// kernel's request or collective, lie in memory that the instruction reaches, and requests follow
// their operator's shape rule. A part of VerifyProgram.
absl::Status VerifyOperands(const Program& program, Buffers buffers = Buffers::kAssigned);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_OPERANDS_H_
