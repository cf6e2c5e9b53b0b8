// Passes that decide when the communication of a Program runs. They work on what lowering makes,
// before buffers are assigned, and are listed by the stage of a Plan (core/plan/stage_passes.h).
//
// Thread safety: pure functions of the Program.
#ifndef TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_
#define TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_

#include <cstdint>
#include <vector>

#include "core/plan/stage_passes.h"
#include "core/program/program.h"

namespace tessera {

// Removes collectives and copies of what nothing reads. (Of a parameter whose view every
// micro-batch reads, lowering gathers the group for the view, and again for each micro-batch.)
void RemoveUnreadTransfers(Program& program);

// Reduces gradients that are ready one after the other in one all-reduce, as large as `buckets`
// allows. A bucket is one tensor, in which instructions write the gradients, and of which the
// reduced ones are views: nothing is copied. A gradient that lies in a buffer with anything else is
// left as it is.
void BucketGradients(const GradientBuckets& buckets, Program& program);

// Starts the gather of a group of parameters when the group `distance` gathers before it is first
// used, so that it runs beside that group's computation.
void PrefetchGathers(int distance, Program& program);

// Delays each gather of parameters until the last use of the group that was gathered `in_flight`
// gathers earlier, where dependencies allow it. This bounds how many gathered groups are in memory.
void LimitGathers(int in_flight, Program& program);

// Delays the gradients of each flat group until the gradients of the group `in_flight` groups
// earlier are reduced, where dependencies allow it. This bounds how many full gradients are in
// memory.
void LimitReductions(int in_flight, Program& program);

// A gather of parameters, and the instructions that read what it gathered.
struct ParameterGather {
  // In order. Over several axes, it is a gather over each, with the copies between them.
  std::vector<int32_t> instructions;
  int32_t first_use = 0;
  int32_t last_use = 0;
};

// Returns the gathers of parameters that something reads, in the Program's order. Readers of a copy
// of gathered parameters count as readers of the gather.
std::vector<ParameterGather> FindParameterGathers(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_
