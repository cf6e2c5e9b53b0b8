// Checks a Program whose buffers are not assigned yet, as one that a plugin has returned.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_ORDER_H_
#define TESSERA_CORE_PROGRAM_VERIFY_ORDER_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Returns InvalidArgument, in one line that names the instruction or value, unless operands have
// the types that their instruction takes, every value is written by at most one instruction, and
// what an instruction reads, or runs after, is written before it; values that lie within another
// one are in its buffer, and there are no workspaces yet. Passes and AssignBuffers may assume this;
// VerifyProgram checks the rest once buffers are planned.
absl::Status VerifyOrder(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_ORDER_H_
