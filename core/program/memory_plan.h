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
  // `fence_bytes` are left free before and behind each state.
  explicit StateLayout(int64_t fence_bytes = 0) : fence_bytes_(fence_bytes) {}

  // Gives every state of `program` a place that has none yet. InvalidArgument if a state is known
  // with another size.
  absl::Status Add(const Program& program);
  // Of a state that was added.
  int64_t OffsetOf(const std::string& path) const;
  int64_t bytes() const { return bytes_; }
  int64_t fence_bytes() const { return fence_bytes_; }

 private:
  struct Place {
    int64_t offset;
    int64_t bytes;
  };
  int64_t fence_bytes_;
  int64_t bytes_ = 0;
  absl::flat_hash_map<std::string, Place> places_;
};

// Gives every buffer of `program` its offset and sets arena_bytes.
void PlanMemory(const StateLayout& states, Program& program);

// What a Program's arena holds at the moment when it is fullest.
struct MemoryReport {
  std::array<int64_t, 7> bytes_at_peak{};  // by Category; what is alive at the fullest instruction
  int32_t peak_instruction = 0;            // the fullest: most bytes alive
  int64_t live_bytes = 0;                  // alive then, each buffer with its alignment
  int64_t arena_bytes = 0;                 // planned
};
MemoryReport ReportMemory(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_PLAN_H_
