// A step by sections: what runs for one block in one phase, with its time and its memory.
#ifndef TESSERA_CORE_COST_STEP_SECTIONS_H_
#define TESSERA_CORE_COST_STEP_SECTIONS_H_

#include <cstdint>
#include <vector>

#include "core/cost/step_time.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {

// Consecutive instructions of one block and phase that neither communicate nor copy to or from host
// memory.
struct StepSection {
  Phase phase = Phase::kForward;
  bool recomputed = false;
  BlockId block;                   // kNone: in no block
  TimeSpan time;                   // from the begin of the first to the end of the last
  double computation_seconds = 0;  // the sum over its instructions
  // Live bytes of a rank on the device: the most since the end of the section before, and those at
  // the last instruction.
  int64_t peak_bytes = 0, end_bytes = 0;
};

// Returns the sections of a Program whose memory is planned, in order; the times are simulated or
// measured ones of its instructions. Thread safety: a pure function.
std::vector<StepSection> SectionsOf(const Program& program,
                                    const Table<InstructionId, TimeSpan>& times);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_STEP_SECTIONS_H_
