// Computes when the instructions of a step run, from the work of each of them.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_SIMULATE_STEP_H_
#define TESSERA_CORE_COST_SIMULATE_STEP_H_

#include <cstdint>

#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {

// The time that an instruction takes. The rates of two activities that run at the same time follow
// from it: beside computation that never pauses, a collective advances at the rate `seconds` /
// `beside_seconds` of its own, and the computation is slower by the share `taken_seconds` /
// `beside_seconds`.
struct Work {
  double seconds = 0;  // if nothing else runs
  // These are those of a collective.
  double beside_seconds = 0;   // at least `seconds`; 0: as `seconds`
  double taken_seconds = 0;    // of computation, which is lost meanwhile
  bool between_hosts = false;  // its link is that between hosts, not that within them
};

enum class IssueOrder : uint8_t {
  // On a CPU one thread issues all instructions in the Program's order (core/runtime/executor.h).
  // It executes computations and copies itself, so they run one after another. It only starts a
  // collective. WaitsForCollectives says when it waits for collectives.
  kThread,
  // On a GPU every stream runs its instructions in order, and only an instruction's waits hold it
  // back. Nothing waits for the thread that issues them.
  kStreams,
};

// Returns when each instruction runs. Collectives of one group (of the same mesh axes) run one
// after another, in the order of their start. Those of different groups that run at once over one
// link have equal shares of its rate. All slow down the computation, which keeps at least a
// twentieth of its rate.
//
// All ranks have the same Program and are assumed to do equal work, so that no rank waits for
// another one. Takes time in proportion to the number of instructions and waits.
Table<InstructionId, TimeSpan> SimulateStep(const Program& program,
                                            const Table<InstructionId, Work>& works,
                                            IssueOrder order = IssueOrder::kThread);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_SIMULATE_STEP_H_
