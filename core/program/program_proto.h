// Programs as messages (core/proto/program.proto): exact, so that a Program that was read is the
// one that was written.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_PROGRAM_PROTO_H_
#define TESSERA_CORE_PROGRAM_PROGRAM_PROTO_H_

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/proto/program.pb.h"

namespace tessera {

ProgramProto ToProto(const Program& program);

// The message may come from outside. InvalidArgument, in one line, if it names an operator or
// kernel that `catalogue` does not have, an index that is out of range, or a size that no memory
// has. Whether the Program is right is for VerifyProgram to say, which is safe on what is returned.
absl::StatusOr<Program> FromProto(const ProgramProto& message, const KernelCatalogue& catalogue);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PROGRAM_PROTO_H_
