// The order between the streams of a Program: which instruction waits for which, and why.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_WAITS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_WAITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {

// For each instruction, the last instruction of every stream that is certain to have ended when it
// begins, because it is earlier on the same stream or because of waits.
class StreamClocks {
 public:
  explicit StreamClocks(const Program& program);

  // Must be called once for each instruction, in order. Takes over the clocks of the preceding
  // instruction of the same stream.
  void Begin(InstructionId instruction);
  // Records that `instruction`, which has begun, waits for `earlier`.
  void AddWait(InstructionId instruction, InstructionId earlier);

  bool HasEnded(InstructionId earlier, InstructionId instruction) const {
    return LastEnded(program_.instructions[earlier].stream, instruction) >= earlier;
  }
  // Returns the last instruction of `stream` that has ended when `instruction` begins; kNone if
  // none.
  InstructionId LastEnded(StreamId stream, InstructionId instruction) const {
    return clocks_[instruction.index() * streams_ + stream.index()];
  }

 private:
  const Program& program_;
  const size_t streams_;
  std::vector<InstructionId> clocks_;        // by instruction and stream
  Table<StreamId, InstructionId> previous_;  // the last instruction that has begun
};

// Adds the waits that hazards within buffers require, and no others. Existing waits are kept.
void AddDataWaits(Program& program);
// Adds the waits that hazards between buffers require. Offsets must be planned.
void AddReuseWaits(Program& program);

// Extends live ranges until the first stream has waited for all uses by other streams. (The first
// stream computes, and should not have to wait before it reuses memory.) Data waits must have been
// added.
void KeepBuffersUntilWaited(Program& program);

// Returns Internal, naming both instructions, unless every hazard has a wait.
absl::Status CheckWaits(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_WAITS_H_
