// How much memory there is to be had.
//
// Thread safety: every function may be called from any thread.
#ifndef TESSERA_CORE_POSIX_AVAILABLE_MEMORY_H_
#define TESSERA_CORE_POSIX_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Memory that this machine could give to a process now, in bytes: what the system calls available,
// or what the process's control group still allows, if that is less. 0 if neither is known.
int64_t AvailableMemory();

// The number at the start of a text; 0 if there is none.
int64_t FirstNumber(absl::string_view text);

// The number that stands alone in a file of the system's, or behind `key` in one of its lines; 0 if
// there is none.
int64_t NumberInFile(const std::string& path, absl::string_view key);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_AVAILABLE_MEMORY_H_
