// The checks of VerifyProgram that look at one instruction at a time.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_VERIFY_OPERANDS_H_
#define TESSERA_CORE_PROGRAM_VERIFY_VERIFY_OPERANDS_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// The state of a Program: its buffers are made first, and get their memory spaces when they are
// assigned.
enum class Buffers { kMade, kAssigned };

// Returns Internal, in one line that names the instruction, unless operands have the types of their
// kernel's request or of their collective and are in memory that the instruction can access, and
// requests follow their operator's shape rule. A part of VerifyProgram.
absl::Status VerifyOperands(const Program& program, Buffers buffers = Buffers::kAssigned);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_VERIFY_OPERANDS_H_
