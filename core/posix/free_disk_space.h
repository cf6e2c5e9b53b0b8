// The space that a process can still get on a disk.
#ifndef TESSERA_CORE_POSIX_FREE_DISK_SPACE_H_
#define TESSERA_CORE_POSIX_FREE_DISK_SPACE_H_

#include <cstdint>
#include <string>

namespace tessera {

// Returns the bytes that this process could write to the file system of `path`, which must exist;
// -1 if that is not known: some file systems report no size. Thread safety: any thread may call it.
int64_t FreeDiskSpace(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_FREE_DISK_SPACE_H_
