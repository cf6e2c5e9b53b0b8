// Checks a finished Program before anything runs.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_VERIFY_H_
#define TESSERA_CORE_PROGRAM_VERIFY_VERIFY_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Returns OK if all of the following hold, and otherwise Internal, in one line that names the
// instruction or value:
// - Operands of a kernel have the types of its request, which follow the operator's shape rule.
//   Operands of collectives and copies are contiguous and have the right number of elements.
// - Parts, slices and members of flat groups agree with their rules. The operands of a kernel fit
//   each other on every rank and are row-major there, unless the kernel accepts strides.
// - A random draw covers the part of its tensor that the output holds.
// - Kernels use device and shared memory, collectives use shared memory.
// - Values are inside their buffers, and values within a tensor are inside its bytes.
// - Every element is written once, before it is read, and its bytes hold nothing else when it is
//   read. This includes tensors that are assembled from parts. (The line names both instructions.)
// - An output shares bytes with an input only if the operator allows it.
// - A state is updated in the bytes of its input.
// - Bytes that one stream reads, writes or has used for an earlier buffer are accessed by another
//   stream only after a wait. (The line names both instructions.)
// - Buffers are live while they are used, are inside their arena, and share no byte while both are
//   live.
//
// Time is n log n in the number of values, except for values that are interleaved in one buffer.
absl::Status VerifyProgram(const Program& program);

// Returns InvalidArgument unless the shapes of a request's outputs follow from its inputs by the
// rules of its operator and epilogues. Call this before asking a kernel whether it accepts the
// request. Dtypes are checked by the kernel.
absl::Status CheckKernelRequest(const Operator& op, const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_VERIFY_H_
