// Passes that decide when the communication of a Program runs. They run on lowered Programs, before
// buffers are assigned, and are listed by the stage of a Plan (core/plan/choices/stage_passes.h).
//
// Thread safety: pure functions of the Program.
#ifndef TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_
#define TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_

#include "core/plan/choices/stage_passes.h"
#include "core/program/program.h"

namespace tessera {

// Removes collectives and copies whose results nothing reads. (For example, if every micro-batch
// reads a view of a parameter, lowering gathers the group for the view and again for each
// micro-batch.)
void RemoveUnreadTransfers(Program& program);

// Reduces gradients that are ready one after the other in one all-reduce, up to the size that
// `buckets` allows. A bucket is one tensor. Instructions write the gradients into it, and the
// reduced gradients are views of it, so nothing is copied. A gradient that shares its buffer with
// something else is left unchanged.
void BucketGradients(const GradientBuckets& buckets, Program& program);

// Starts the gather of a group of parameters before the first use of the group `distance` gathers
// earlier, so that it overlaps with that group's computation.
void PrefetchGathers(int distance, Program& program);

// Starts no gather of parameters before the last use of the group `in_flight` gathers earlier,
// where the uses allow that. This bounds how many gathered groups are in memory at a time.
void LimitGathers(int in_flight, Program& program);

// Removes gathers of parameters that begin while an earlier gather of the same values is still in
// use. To be called when gathers are where they shall be.
void JoinGathers(Program& program);

// Computes no gradient of a flat group before the gradients of the group `in_flight` groups earlier
// are reduced, where the order allows that. This bounds how many full gradients are in memory at a
// time.
void LimitReductions(int in_flight, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_
