// Checks a Program whose buffers are not assigned yet, for example one that a plugin's pass
// returned.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_VERIFY_ORDER_H_
#define TESSERA_CORE_PROGRAM_VERIFY_VERIFY_ORDER_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Returns InvalidArgument, in one line that names the instruction or value, unless
// - operands have the types that their instruction accepts,
// - every value is written by at most one instruction,
// - everything that an instruction reads or must run after is written before it,
// - values within another value are in its buffer,
// - there are no workspaces.
//
// Passes and AssignBuffers may assume this; VerifyProgram checks the rest once buffers are planned.
absl::Status VerifyOrder(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_VERIFY_ORDER_H_
