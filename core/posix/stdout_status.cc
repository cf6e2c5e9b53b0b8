#include "core/posix/stdout_status.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace tessera {

absl::Status StdoutStatus() {
  int error = 0;
  if (std::fflush(stdout) != 0) {
    error = errno;
  } else if (std::ferror(stdout) != 0) {
    // An earlier write failed, and its reason is lost, unless it lasts.
    pollfd out = {STDOUT_FILENO, POLLOUT, 0};
    error = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0 ? EPIPE : EIO;
  }
  return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "cannot write to stdout");
}

}  // namespace tessera
