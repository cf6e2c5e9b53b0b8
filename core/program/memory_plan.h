// The memory plan: every buffer gets an offset in the arena of its memory space, from its size and
// its live range.
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

// Addresses of the states of a run: the same in all its Programs, from the start of an arena. A
// state that a collective touches in one of them lies in shared memory in all.
//
// If any Program of the run communicates, all buffers that kernels use, except state, are in shared
// memory in every Program. One arena has one peak; two arenas would take the sum of two peaks that
// occur at different times.
class StateLayout {
 public:
  // `fence_bytes` are left free before and after each state.
  explicit StateLayout(int64_t fence_bytes = 0) : fence_bytes_(fence_bytes) {}

  // Adds the states of `program` that are not known yet. Addresses may change until all Programs
  // are added. InvalidArgument if a state is known with another size, or is offloaded to the host
  // in one Program and not in another.
  absl::Status Add(const Program& program);
  // The address of a state that was added.
  ArenaAddress AddressOf(const std::string& path) const;
  // The bytes of the states, at the start of each arena.
  const SpaceBytes& bytes() const { return bytes_; }
  int64_t fence_bytes() const { return fence_bytes_; }
  // The space of a buffer that is not state.
  MemorySpace SpaceOf(const Buffer& buffer) const;

 private:
  struct Entry {
    int64_t bytes;
    ArenaAddress address;
  };
  int64_t fence_bytes_;
  SpaceBytes bytes_;
  bool communicates_ = false;  // some Program that was added
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> index_of_;
};

// Gives every buffer of `program` its space and its offset, and sets the size of each arena. Adds
// the waits that are needed where a stream reuses memory of another stream.
void PlanMemory(const StateLayout& states, Program& program);

// The memory that kernels reach, or what is offloaded to the host.
enum class MemorySide : uint8_t { kDevice, kHost };

// The contents of a Program's arenas on one side at the instruction with the most live bytes.
struct MemoryReport {
  std::array<int64_t, 7> bytes_at_peak{};  // by Category; what is live at the peak instruction
  int32_t peak_instruction = 0;            // the one with the most live bytes
  int64_t live_bytes = 0;                  // live then, each buffer with its alignment
  int64_t arena_bytes = 0;                 // planned
};
MemoryReport ReportMemory(const Program& program, MemorySide side = MemorySide::kDevice);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_PLAN_H_
