// Files that the user names for a result, such as --json=FILE: a regular file, a device, or a FIFO
// that another process reads. None of these functions waits for such a process in open(2).
//
// A link is followed if it belongs to this user or to root (as /dev/stdout does), else the error
// is PermissionDenied. Errors name the path. A new file has the permissions that the umask leaves
// of 0666.
//
// Thread safety: functions on different paths may run concurrently.
#ifndef TESSERA_CORE_POSIX_OUTPUT_FILE_H_
#define TESSERA_CORE_POSIX_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Replaces the contents of a file, or makes it; writes to a device or a FIFO. Returns NotFound if
// no process reads the FIFO.
absl::Status WriteOutputFile(const std::string& path, absl::string_view text);

// Checks, before the work that the file is for, that it can be written. Makes it if it does not
// exist, and changes nothing in one that does. Does not open a FIFO or a device: closing it again
// would end its reader.
absl::Status CheckOutputFile(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_OUTPUT_FILE_H_
