#include "tools/train/standard_output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_format.h"

namespace tessera {

void PrintLine(absl::string_view text) {
  absl::PrintF("%s\n", text);
  std::fflush(stdout);
}

int TerminalWidth() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

absl::Status OutputStatus() {
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
