#include "collectives/rendezvous/framed_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int64_t kReceiveBytes = 64 << 10;

absl::Status WaitFor(int fd, short events, Deadline deadline) {  // NOLINT(google-runtime-int)
  pollfd event = {fd, events, 0};
  const int ready = poll(&event, 1, MillisecondsUntil(deadline));
  if (ready == 0) return absl::DeadlineExceededError("no answer");
  return absl::OkStatus();
}

}  // namespace

absl::Status FramedConnection::Receive() {
  std::array<char, kReceiveBytes> bytes;
  const ssize_t got = recv(fd(), bytes.data(), bytes.size(), /*flags=*/0);
  if (got > 0) {
    reader_.Feed(absl::MakeConstSpan(bytes.data(), got));
    return absl::OkStatus();
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  return absl::UnavailableError(got == 0
                                    ? "the connection was closed"
                                    : absl::StrCat("the connection was closed: ", strerror(errno)));
}

absl::StatusOr<bool> FramedConnection::Next(google::protobuf::MessageLite* message) {
  std::string bytes;
  ASSIGN_OR_RETURN(const bool there, reader_.Next(&bytes));
  if (there && !message->ParseFromString(bytes)) {
    return absl::InvalidArgumentError("what came is no message of the rendezvous");
  }
  return there;
}

void FramedConnection::Queue(const google::protobuf::MessageLite& message) {
  output_.erase(0, sent_);
  sent_ = 0;
  output_ += MakeFrame(message.SerializeAsString());
}

absl::Status FramedConnection::Flush() {
  while (sent_ < output_.size()) {
    const ssize_t put = send(fd(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL);
    if (put >= 0) {
      sent_ += put;
    } else if (errno == EAGAIN) {
      return absl::OkStatus();
    } else if (errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("the connection was closed: ", strerror(errno)));
    }
  }
  // A long answer's memory is not kept.
  output_ = std::string();
  sent_ = 0;
  return absl::OkStatus();
}

absl::Status FramedConnection::WaitForNext(google::protobuf::MessageLite* message,
                                           Deadline deadline) {
  while (true) {
    ASSIGN_OR_RETURN(const bool there, Next(message));
    if (there) return absl::OkStatus();
    RETURN_IF_ERROR(WaitFor(fd(), POLLIN, deadline));
    RETURN_IF_ERROR(Receive());
  }
}

absl::Status FramedConnection::WaitUntilFlushed(Deadline deadline) {
  while (true) {
    RETURN_IF_ERROR(Flush());
    if (queued_bytes() == 0) return absl::OkStatus();
    RETURN_IF_ERROR(WaitFor(fd(), POLLOUT, deadline));
  }
}

}  // namespace tessera::comm
