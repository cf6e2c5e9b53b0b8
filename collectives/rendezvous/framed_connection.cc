#include "collectives/rendezvous/framed_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "collectives/rendezvous/field_count.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int64_t kReceiveBytes = 64 << 10;

}  // namespace

std::string FramedConnection::peer_address() const {
  const absl::StatusOr<SocketAddress> address = PeerAddressOf(socket_);
  return address.ok() ? address->text() : "?";
}

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

absl::StatusOr<bool> FramedConnection::Next(google::protobuf::Message* message) {
  std::string bytes;
  ASSIGN_OR_RETURN(const bool there, reader_.Next(&bytes));
  if (!there) return false;
  if (!receiver_.Open(read_messages_++, &bytes)) {
    return absl::DataLossError("changed on the way (wrong digest)");
  }
  RETURN_IF_ERROR(CheckFieldCount(bytes, *message->GetDescriptor(), kMaxMessageFields));
  if (message->ParseFromString(bytes)) return true;
  return absl::InvalidArgumentError("the bytes are not a message of the rendezvous");
}

void FramedConnection::Queue(const google::protobuf::Message& message) {
  output_.erase(0, sent_);
  sent_ = 0;
  std::string bytes = message.SerializeAsString();
  sender_.Seal(queued_messages_++, &bytes);
  output_ += MakeFrame(bytes);
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
  // Frees the memory of a long answer.
  output_ = std::string();
  sent_ = 0;
  return absl::OkStatus();
}

absl::Status FramedConnection::WaitForAnswer(google::protobuf::Message* message,
                                             Deadline deadline) {
  while (true) {
    RETURN_IF_ERROR(Flush());
    if (queued_bytes() == 0) break;
    RETURN_IF_ERROR(WaitForEvents(fd(), POLLOUT, deadline));
  }
  while (true) {
    ASSIGN_OR_RETURN(const bool there, Next(message));
    if (there) return absl::OkStatus();
    RETURN_IF_ERROR(WaitForEvents(fd(), POLLIN, deadline));
    RETURN_IF_ERROR(Receive());
  }
}

}  // namespace tessera::comm
