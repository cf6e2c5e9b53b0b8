// The memory plan: every buffer gets an offset in one arena, from its size and its live range.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_PLAN_H_
#define TESSERA_CORE_PROGRAM_MEMORY_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Offsets of the states of a run: the same in all its Programs, from the start of the arena.
class StateLayout {
 public:
  // `fence_bytes` are left free before and after each state.
  explicit StateLayout(int64_t fence_bytes = 0) : fence_bytes_(fence_bytes) {}

  // Gives every state of `program` an offset that has none yet. InvalidArgument if a state is known
  // with another size.
  absl::Status Add(const Program& program);
  // The offset of a state that was added.
  int64_t OffsetOf(const std::string& path) const;
  int64_t bytes() const { return bytes_; }
  int64_t fence_bytes() const { return fence_bytes_; }

 private:
  struct Position {
    int64_t offset;
    int64_t bytes;
  };
  int64_t fence_bytes_;
  int64_t bytes_ = 0;
  absl::flat_hash_map<std::string, Position> positions_;
};

// Gives every buffer of `program` its offset and sets arena_bytes. Where a stream gets memory that
// another one has used, it waits for it.
void PlanMemory(const StateLayout& states, Program& program);

// The contents of a Program's arena at the instruction with the most live bytes.
struct MemoryReport {
  std::array<int64_t, 7> bytes_at_peak{};  // by Category; what is live at the peak instruction
  int32_t peak_instruction = 0;            // the one with the most live bytes
  int64_t live_bytes = 0;                  // live then, each buffer with its alignment
  int64_t arena_bytes = 0;                 // planned
};
MemoryReport ReportMemory(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_PLAN_H_
