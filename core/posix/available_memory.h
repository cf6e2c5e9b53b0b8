// The memory that a process can still get from the system.
//
// Thread safety: every function may be called from any thread.
#ifndef TESSERA_CORE_POSIX_AVAILABLE_MEMORY_H_
#define TESSERA_CORE_POSIX_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Returns the bytes that this process could allocate now: the memory that the system reports as
// available, or that the process's control groups (versions 1 and 2) still allow, whichever is
// less. Page cache counts as available. Returns 0 if nothing is known. `root` is the folder that
// contains /proc and /sys.
int64_t AvailableMemory(const std::string& root = "");

// Returns the number at the start of a text, 0 if there is none.
int64_t FirstNumber(absl::string_view text);

// Returns the number that follows `key` at the start of a line of a file, 0 if there is none. With
// key "", it is the first number at the start of a line.
int64_t NumberInFile(const std::string& path, absl::string_view key);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_AVAILABLE_MEMORY_H_
