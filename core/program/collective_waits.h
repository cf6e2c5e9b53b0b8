// The collectives for which the thread that issues a Program's instructions waits. The executor
// waits for them, and so does a simulated step.
#ifndef TESSERA_CORE_PROGRAM_COLLECTIVE_WAITS_H_
#define TESSERA_CORE_PROGRAM_COLLECTIVE_WAITS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/ids/table.h"
#include "core/program/memory_space.h"
#include "core/program/program.h"

namespace tessera {

// Bytes [begin, end) of an arena.
struct ArenaRange {
  MemorySpace space = MemorySpace::kDevice;
  int64_t begin = 0, end = 0;
};

struct CollectiveWaits {
  // For each instruction, the collectives that must have ended before the thread issues it, in the
  // order in which they were issued.
  Table<InstructionId, std::vector<InstructionId>> before;
  std::vector<InstructionId> at_end;  // those that nothing waits for
};

// The thread issues instructions in the Program's order. Before an instruction it waits for the
// collectives among the instruction's waits and for those that precede them on their streams. It
// also waits for the collectives that precede the instruction on its own stream, unless the
// instruction is a collective of the same group and overwrites no memory of theirs, nor they of
// its: a group runs its collectives in order by itself, but may receive one's data while the one
// before still sends.
//
// `memory_of` returns the bytes in which a rank has an operand of a collective. Offsets must be
// planned. Thread safety: pure functions.
CollectiveWaits WaitsForCollectives(const Program& program,
                                    absl::FunctionRef<ArenaRange(ProgramValueId id)> memory_of);
// The same for any rank: what differs between ranks counts with all bytes that one of them may use.
CollectiveWaits WaitsForCollectives(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_COLLECTIVE_WAITS_H_
