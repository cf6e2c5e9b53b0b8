// Computes when the instructions of a step run, given the time that each of them takes.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_STEP_TIME_H_
#define TESSERA_CORE_COST_STEP_TIME_H_

#include <vector>

#include "absl/types/span.h"
#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {

// Seconds from the start of the step.
struct TimeSpan {
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

// Returns when each instruction runs if instruction i takes seconds[i], with instructions issued as
// by the executor (core/runtime/executor.h). One thread issues all of them in the Program's order.
// It executes computations itself, so they run one after another. It only starts a collective,
// which then runs beside the following instructions, as soon as the collectives before it on its
// stream have ended. WaitsForCollectives says when the thread waits for collectives.
//
// Collectives that run at the same time do not slow down each other, nor the computation. Takes
// time in proportion to the number of instructions and waits.
Table<InstructionId, TimeSpan> SimulateStep(const Program& program,
                                            const Table<InstructionId, double>& seconds);

// Returns the end of the last instruction.
double StepSeconds(const Table<InstructionId, TimeSpan>& times);

// The time in which something computes, and for each instruction the time in which it communicates
// while nothing computes (0 for instructions that compute). If several communicate at once, the
// time counts for the one that began first, so that the sum is the time in which only communication
// runs.
struct Overlap {
  double computation_seconds = 0;
  Table<InstructionId, double> exposed_seconds;
};
// `times` may be simulated or measured.
Overlap OverlapOf(const Program& program, const Table<InstructionId, TimeSpan>& times);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_STEP_TIME_H_
