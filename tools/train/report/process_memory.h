// The resident memory of this process, as the system counts it.
//
// Thread safety: every function may be called from any thread.
#ifndef TESSERA_TOOLS_TRAIN_REPORT_PROCESS_MEMORY_H_
#define TESSERA_TOOLS_TRAIN_REPORT_PROCESS_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Resident memory by kind, in bytes.
struct ResidentMemory {
  int64_t peak = 0;       // the largest total so far
  int64_t code = 0;       // the program and its libraries
  int64_t files = 0;      // other files that are mapped: the data
  int64_t anonymous = 0;  // the rest: arenas, the heap, stacks
};

// Returns the largest resident memory of this process so far, in bytes; 0 if the system does not
// tell. Costs less than ReadResidentMemory, which reads every mapping.
int64_t PeakMemory();

// Reads the resident memory of the process with this folder in /proc. Returns zeros if the system
// has no such files.
ResidentMemory ReadResidentMemory(const std::string& process = "/proc/self");

// Returns the peak so far and restarts its measurement: later peaks are those since this call. If
// the system cannot do that, they remain those since the process started.
int64_t ResetPeakMemory();

// "2.15 GiB resident at the peak: arena 2.12 GiB, program and libraries 20.1 MiB, mapped files
// 4.31 MiB, heap and stacks 6.20 MiB". `arena_bytes` are the part of the anonymous memory that
// belongs to the arena. Memory freed since the peak is named if it is more than a hundredth of the
// peak.
std::string ResidentMemoryLine(const ResidentMemory& resident, int64_t arena_bytes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_REPORT_PROCESS_MEMORY_H_
