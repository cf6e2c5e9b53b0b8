// The memory plan: every buffer gets an offset in the arena of its memory space, from its size and
// its live range.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_MEMORY_PLAN_H_
#define TESSERA_CORE_PROGRAM_MEMORY_MEMORY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// The addresses of the states of a run. States are at the start of an arena, at the same address in
// all Programs of the run. A state that a collective touches in one Program is in shared memory in
// all of them.
//
// If any Program of the run communicates, all other device memory of every Program is shared memory
// as well. One arena needs the peak of its contents; two arenas would need the sum of two peaks,
// which occur at different times.
class StateLayout {
 public:
  // `fence_bytes` are left free before and after each state.
  explicit StateLayout(int64_t fence_bytes = 0) : fence_bytes_(fence_bytes) {}

  // Adds the states of `program` that were not added before. Addresses may change until all
  // Programs are added. InvalidArgument if a state was added with another size, or is offloaded to
  // the host in only one of two Programs.
  absl::Status Add(const Program& program);
  // Returns the address of a state that was added.
  ArenaAddress AddressOf(const std::string& path) const;
  // Returns the bytes of the states, which are at the start of each arena.
  const SpaceBytes& bytes() const { return bytes_; }
  int64_t fence_bytes() const { return fence_bytes_; }
  // Returns whether any Program that was added communicates.
  bool communicates() const { return communicates_; }
  // Returns the memory space of a buffer that is not state.
  MemorySpace SpaceOf(const Buffer& buffer) const;

 private:
  struct Entry {
    int64_t bytes;
    ArenaAddress address;
  };
  int64_t fence_bytes_;
  SpaceBytes bytes_;
  bool communicates_ = false;
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> index_of_;
};

// Sets the memory space and the offset of every buffer of `program`, and the size of each arena.
// Adds a wait wherever a stream reuses memory that another stream has used.
void PlanMemory(const StateLayout& states, Program& program);

// Returns the bytes that PlanMemory would plan in each arena beside the states. They depend on the
// Program, the fence bytes and on whether any Program communicates, and on nothing else.
SpaceBytes BytesBesideStates(const StateLayout& states, const Program& program);

// The memory that kernels access, or the memory of tensors that are offloaded to the host.
enum class MemorySide : uint8_t { kDevice, kHost };

// The contents of a Program's arenas on one side at the instruction with the most live bytes.
struct MemoryReport {
  BytesByCategory bytes_at_peak{};  // live bytes at the peak instruction
  int32_t peak_instruction = 0;     // the time with the most live bytes; see Buffer
  int64_t live_bytes = 0;           // live at the peak, each buffer with its alignment
  int64_t arena_bytes = 0;          // planned size of the arenas
};
MemoryReport ReportMemory(const Program& program, MemorySide side = MemorySide::kDevice);

// Returns the live bytes by Category, each buffer with its alignment, at every time of a Buffer:
// element t + 1 is that of time t, from -1 to the number of instructions. Element peak_instruction
// + 1 of a MemoryReport is its bytes_at_peak.
std::vector<BytesByCategory> LiveBytesByTime(const Program& program,
                                             MemorySide side = MemorySide::kDevice);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_MEMORY_PLAN_H_
