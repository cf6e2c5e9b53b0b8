// What this process holds in memory, as the system counts it.
//
// Thread safety: every function may be called from any thread.
#ifndef TESSERA_TOOLS_TRAIN_PROCESS_MEMORY_H_
#define TESSERA_TOOLS_TRAIN_PROCESS_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// What is in memory of this process, in bytes.
struct ResidentMemory {
  int64_t peak = 0;       // the most there has been so far
  int64_t code = 0;       // the program and its libraries
  int64_t files = 0;      // other files that are mapped: the data
  int64_t anonymous = 0;  // the rest: arenas, the heap, stacks
};

// Of the process whose folder in /proc this is. All 0 where the system has no such files.
ResidentMemory ReadResidentMemory(const std::string& process = "/proc/self");

// Begins the count of `peak` anew: from now on it is the most since this call. Returns the peak so
// far. Where the system cannot do that, the peak stays that of the whole process.
int64_t ResetPeakMemory();

// "2.15 GiB resident at the peak: arena 2.12 GiB, program and libraries 20.1 MiB, mapped files
// 4.31 MiB, heap and stacks 6.20 MiB": where `arena_bytes` of the anonymous memory are the arena's.
// Says what was freed since the peak, if that is more than a hundredth of it.
std::string ResidentMemoryLine(const ResidentMemory& resident, int64_t arena_bytes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_PROCESS_MEMORY_H_
