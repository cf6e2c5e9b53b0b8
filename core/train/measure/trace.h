// One step as a trace for chrome://tracing and Perfetto (ui.perfetto.dev). Each rank is a process
// with a slice for the step. It contains slices for forward, backward and update, and these contain
// a slice for each instruction with its shapes, FLOPs, bytes and GFLOP/s. Communication has threads
// of its own. A counter shows the live bytes.
//
// The format is Chrome's trace events ("Trace Event Format", docs of the Catapult project).
#ifndef TESSERA_CORE_TRAIN_MEASURE_TRACE_H_
#define TESSERA_CORE_TRAIN_MEASURE_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/program/program.h"
#include "core/runtime/executor.h"

namespace tessera {

// When a step ran, in nanoseconds of one clock.
struct StepTimes {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  const Table<InstructionId, InstructionTime>& instructions;
};

// The rank that executed the step.
struct TracedRank {
  int rank = 0;
  int size = 1;
  int64_t zero_ns = 0;     // time 0 of the trace, by the clock of StepTimes
  bool predicted = false;  // the times are not measured
};

// Returns a rank's events, for JoinTraces. Its process has the number 1 + rank (if predicted, 1 +
// size + rank, shown below the measured one) and a thread for each stream; a stream on which
// several collectives ran at once has more ("gradients 2").
std::string TraceEvents(const Program& program, const StepTimes& times, const TracedRank& rank);

// Returns the JSON text of a trace with the events of all ranks.
std::string JoinTraces(absl::Span<const std::string> events_by_rank);

// Returns the trace of a run of one rank. Times count from the start of the step.
std::string TraceToJson(const Program& program, const StepTimes& times);

// Returns the same of a step as predicted (core/cost/step_cost.h), which begins when the step of
// the rank did.
std::string PredictedTraceEvents(const Program& program,
                                 const Table<InstructionId, TimeSpan>& times,
                                 const StepTimes& measured, const TracedRank& rank);

// Returns the trace of a step that no rank has run. Times count from the start of the step.
std::string PredictedTraceToJson(const Program& program,
                                 const Table<InstructionId, TimeSpan>& times);

// Returns the share of the step in which nothing was computed, in [0, 1]: the rank waited for
// communication, or did work that is not an instruction.
double ShareOutsideKernels(const Program& program, const StepTimes& times);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEASURE_TRACE_H_
