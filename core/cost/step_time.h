// The times of a step's instructions, simulated (core/cost/simulate_step.h) or measured.
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

// Returns the end of the last instruction.
double StepSeconds(const Table<InstructionId, TimeSpan>& times);

// Returns the times in which at least one instruction communicates: disjoint spans, in order.
std::vector<TimeSpan> CommunicatingSpans(const Program& program,
                                         const Table<InstructionId, TimeSpan>& times);

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
