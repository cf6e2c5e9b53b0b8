#include "tests/fuzz/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "core/status/check.h"

namespace tessera::comm {

Stream TakeStream(Input& input) {
  const bool is_framed = input.Take<uint8_t>() % 4 != 0;
  Stream stream;
  if (!is_framed) {
    stream.bytes = std::string(input.TakeRest());
    return stream;
  }
  while (!input.empty()) stream.messages.emplace_back(input.TakeRecord());
  return stream;
}

Frames::Frames(FileDescriptor socket) : socket_(std::move(socket)) {}

Frames::Frames(FileDescriptor socket, const SessionKeys& keys)
    : socket_(std::move(socket)), sender_(keys.send), receiver_(keys.receive) {}

bool Frames::Receive() {
  pollfd event = {socket_.get(), POLLIN, 0};
  poll(&event, 1, /*timeout=*/-1);
  char bytes[4096];
  const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
  if (got > 0) reader_.Feed({bytes, static_cast<size_t>(got)});
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool Frames::Read(google::protobuf::MessageLite* message) {
  std::string bytes;
  while (true) {
    const auto there = reader_.Next(&bytes);
    TESSERA_CHECK(there.ok()) << there.status();
    if (*there) break;
    if (!Receive()) return false;
  }
  TESSERA_CHECK(!receiver_.has_value() || receiver_->Open(read_++, &bytes)) << "a wrong digest";
  TESSERA_CHECK(message->ParseFromString(bytes)) << "no message";
  return true;
}

std::string Frames::FrameOf(std::string message) {
  if (sender_.has_value()) sender_->Seal(written_++, &message);
  return MakeFrame(message);
}

void Frames::WriteBytes(absl::string_view bytes) {
  (void)!send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Frames::Write(const Stream& stream) {
  std::string bytes;
  for (const std::string& message : stream.messages) bytes += FrameOf(message);
  WriteBytes(bytes + stream.bytes);
}

void Frames::Write(const google::protobuf::MessageLite& message) {
  WriteBytes(FrameOf(message.SerializeAsString()));
}

void Frames::Finish() {
  shutdown(socket_.get(), SHUT_WR);
  while (Receive()) {
  }
}

}  // namespace tessera::comm
