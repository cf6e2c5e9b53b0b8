// The order between the streams of a Program: which instruction waits for which, and why.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_WAITS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_WAITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// For each instruction, the last instruction of every stream that is certain to have ended when it
// begins, because it is earlier on the same stream or because of waits.
class StreamClocks {
 public:
  explicit StreamClocks(const Program& program);

  // Must be called once for each instruction, in order. Takes over the clocks of the preceding
  // instruction of the same stream.
  void Begin(int32_t instruction);
  // Records that `instruction`, which has begun, waits for `earlier`.
  void AddWait(int32_t instruction, int32_t earlier);

  bool HasEnded(int32_t earlier, int32_t instruction) const {
    return LastEnded(program_.instructions[earlier].stream, instruction) >= earlier;
  }
  // Returns the last instruction of `stream` that has ended when `instruction` begins; kNone if
  // none.
  int32_t LastEnded(int32_t stream, int32_t instruction) const {
    return clocks_[static_cast<size_t>(instruction) * streams_ + stream];
  }

 private:
  const Program& program_;
  const size_t streams_;
  std::vector<int32_t> clocks_;    // by instruction and stream
  std::vector<int32_t> previous_;  // by stream: its last instruction that has begun
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
