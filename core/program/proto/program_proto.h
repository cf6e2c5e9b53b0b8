// Converts Programs to messages (core/proto/program.proto) and back. The conversion is exact: a
// Program that is read equals the one that was written.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PROGRAM_PROTO_PROGRAM_PROTO_H_
#define TESSERA_CORE_PROGRAM_PROTO_PROGRAM_PROTO_H_

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/proto/program.pb.h"

namespace tessera {

ProgramProto ToProto(const Program& program);

// Reads a message, which need not be trusted. Returns InvalidArgument, in one line, if it names an
// operator or kernel that `catalogue` does not have, an index that is out of range, or a size that
// exceeds any memory. Does not check whether the Program is correct: that is done by VerifyProgram,
// which is safe to call on the result.
absl::StatusOr<Program> FromProto(const ProgramProto& message, const KernelCatalogue& catalogue);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PROTO_PROGRAM_PROTO_H_
