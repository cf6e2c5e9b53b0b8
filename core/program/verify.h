// Checks a finished Program before anything runs.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_H_
#define TESSERA_CORE_PROGRAM_VERIFY_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Internal, naming the instruction or buffer, unless: every value is written once and before it is
// read; shapes are what the operators' shape rules say; views lie within their roots; what is read
// is still there (a buffer that was taken over, an old state after the new one was written); a
// value overwrites an input only where the operator allows it; buffers live as long as they are
// used, lie within the arena, and share no byte while both live.
absl::Status VerifyProgram(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_H_
