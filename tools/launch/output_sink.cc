#include "tools/launch/output_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

// Bytes that a stream in blocking mode takes without blocking when poll(2) reports it as writable.
constexpr size_t kSafeBytes = 512;

}  // namespace

OutputSink::OutputSink(int fd) : fd_(fd) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return;
  if (S_ISREG(info.st_mode)) {
    kind_ = Kind::kFile;
  } else if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::kSocket;
  } else {
    // Opens a file description of its own, so that the mode of the shared one does not change.
    reopened_ = FileDescriptor(open(absl::StrCat("/proc/self/fd/", fd).c_str(),
                                    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!reopened_.is_open()) return;
    fd_ = reopened_.get();
    kind_ = Kind::kNonBlocking;
  }
}

void OutputSink::Write(absl::string_view text) {
  if (is_closed_) return;
  queue_.append(text.data(), text.size());
  Flush();
}

void OutputSink::Flush() {
  size_t written = 0;
  while (written < queue_.size() && !is_closed_) {
    const int64_t count = WriteSome(absl::string_view(queue_).substr(written));
    if (count >= 0) {
      written += count;
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      is_closed_ = true;
    }
  }
  queue_.erase(0, is_closed_ ? queue_.size() : written);
}

int64_t OutputSink::WriteSome(absl::string_view text) {
  if (kind_ == Kind::kSocket) {
    return send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (kind_ == Kind::kBlocking) {
    pollfd event = {fd_, POLLOUT, 0};
    if (poll(&event, 1, /*timeout=*/0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    text = text.substr(0, kSafeBytes);
  }
  return write(fd_, text.data(), text.size());
}

}  // namespace tessera::comm
