// When a step computed, beside what it communicated.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_COMPUTING_TIMES_H_
#define TESSERA_CORE_TRAIN_COMPUTING_TIMES_H_

#include <vector>

#include "absl/types/span.h"
#include "core/program/program.h"
#include "core/runtime/executor.h"

namespace tessera {

// Returns the intervals in which instructions that do not communicate ran, in order; those that
// overlap are joined. `times` has one entry for each of the Program's instructions.
std::vector<InstructionTime> ComputingTimes(const Program& program,
                                            absl::Span<const InstructionTime> times);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_COMPUTING_TIMES_H_
