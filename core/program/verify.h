// Checks a finished Program before anything runs.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_H_
#define TESSERA_CORE_PROGRAM_VERIFY_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Returns Internal, in one line that names the instruction or value, unless
// - operands have the types of their kernel's request, which follow the operator's shape rule, and
//   those of collectives and copies are contiguous and have their elements;
// - parts, slices and members of flat groups are what their rules say, and the operands of a kernel
//   fit each other on every rank and lie row-major there unless the kernel takes strides;
// - a random draw covers the part of its tensor that the output is;
// - kernels work on device and shared memory, collectives on shared memory;
// - values lie in their buffers, and what lies within a tensor in its bytes;
// - every element is written once and before it is read, also of a tensor that is assembled from
//   parts, and its bytes hold nothing else when it is read (the line names both instructions);
// - an output has bytes of an input only if the operator allows it;
// - a state is updated in the bytes of its input;
// - what one stream reads, writes or has used in the memory of a buffer, another one touches only
//   behind a wait (the line names both instructions);
// - buffers are live while they are used, lie within their arena, and share no byte while both are
//   live.
// Time is n log n in the number of values, but for values that lie interleaved in one buffer.
absl::Status VerifyProgram(const Program& program);

// Returns InvalidArgument unless the shapes of a request's outputs follow from its inputs by the
// rules of its operator and its epilogues. Ask a kernel only then whether it accepts a request;
// dtypes are the kernel's matter.
absl::Status CheckKernelRequest(const Operator& op, const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_H_
