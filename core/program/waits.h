// The order between the streams of a Program: which instruction waits for which, and why.
#ifndef TESSERA_CORE_PROGRAM_WAITS_H_
#define TESSERA_CORE_PROGRAM_WAITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// For each instruction, the last one of every stream that has surely ended when it begins: because
// it is earlier on the same stream, or because of waits.
class StreamClocks {
 public:
  explicit StreamClocks(const Program& program);

  // To be called once for each instruction, in order: starts with what precedes it on its stream.
  void Begin(int32_t instruction);
  // Adds a wait of an instruction that has begun for an earlier one.
  void AddWait(int32_t instruction, int32_t earlier);

  bool HasEnded(int32_t earlier, int32_t instruction) const {
    return LastEnded(program_.instructions[earlier].stream, instruction) >= earlier;
  }
  // The last instruction of `stream` that has ended when `instruction` begins; kNone if none has.
  int32_t LastEnded(int32_t stream, int32_t instruction) const {
    return clocks_[static_cast<size_t>(instruction) * streams_ + stream];
  }

 private:
  const Program& program_;
  const size_t streams_;
  std::vector<int32_t> clocks_;    // by instruction and stream
  std::vector<int32_t> previous_;  // by stream: its last instruction that has begun
};

// Adds the waits that the hazards within buffers need, and no others. Waits that are there stay.
void AddDataWaits(Program& program);
// The same for hazards between buffers; their offsets must be planned.
void AddReuseWaits(Program& program);

// Moves the ends of live ranges behind the point where the first stream (which computes, and must
// not be held up) has waited for all uses by other streams. Data waits must be there.
void KeepBuffersUntilWaited(Program& program);

// Internal, naming both instructions, unless every hazard has a wait.
absl::Status CheckWaits(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_WAITS_H_
