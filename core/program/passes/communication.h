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

// Starts no gather of parameters before the last use of the group `in_flight` gathers before it, if
// that can be: this bounds the gathered groups that are in memory at a time.
void LimitGathers(int in_flight, Program& program);

// Computes no gradient of a flat group before the gradients of the group `in_flight` groups before
// it are reduced, if that can be: this bounds the full gradients that are in memory at a time.
void LimitReductions(int in_flight, Program& program);

// A gather of parameters, and the instructions that read what it gathered.
struct ParameterGather {
  // In order. Over several axes, it is a gather over each, with the copies between them.
  std::vector<int32_t> instructions;
  int32_t first_use = 0;
  int32_t last_use = 0;
};

// The gathers of parameters that are read, in the order of the Program. A copy of what was gathered
// is followed to the readers of the copy.
std::vector<ParameterGather> FindParameterGathers(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_COMMUNICATION_H_
