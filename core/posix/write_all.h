// Writes bytes to a file, a pipe or a device.
#ifndef TESSERA_CORE_POSIX_WRITE_ALL_H_
#define TESSERA_CORE_POSIX_WRITE_ALL_H_

#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "absl/strings/string_view.h"

namespace tessera {

// Writes bytes to a descriptor that waits until it can take more. Returns how many were written:
// all of them, or fewer after an error, which errno states. Any thread may call it.
inline size_t WriteAll(int fd, absl::string_view bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  return written;
}

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_WRITE_ALL_H_
