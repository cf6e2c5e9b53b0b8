// Checks a finished Program before anything runs.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_H_
#define TESSERA_CORE_PROGRAM_VERIFY_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Returns Internal, naming the instruction or buffer, unless: every element is written once and
// before it is read, also of a value that is assembled from parts; shapes follow the operators'
// shape rules; views lie within their roots; what is read is still there (its buffer was not taken
// over, nor a state updated); a value overwrites an input only if the operator allows it; buffers
// are live while they are used, lie within the arena, and share no byte while both are live.
absl::Status VerifyProgram(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_H_
