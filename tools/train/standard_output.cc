#include "tools/train/standard_output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

thread_local std::FILE* output = nullptr;  // null: stdout

}  // namespace

void DiscardOutput() {
  static std::FILE* const nowhere = std::fopen("/dev/null", "w");
  if (nowhere != nullptr) output = nowhere;
}

std::FILE* Output() { return output == nullptr ? stdout : output; }

void PrintLine(absl::string_view text) {
  absl::FPrintF(Output(), "%s\n", text);
  std::fflush(Output());
}

bool IsTerminal() { return output == nullptr && isatty(STDOUT_FILENO) != 0; }

int TerminalWidth() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

absl::Status OutputStatus() {
  int error = 0;
  if (output != nullptr) return absl::OkStatus();
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
