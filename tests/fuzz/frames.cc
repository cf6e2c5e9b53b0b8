#include "tests/fuzz/frames.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "core/status/check.h"

namespace tessera::comm {

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
  TESSERA_CHECK(message->ParseFromString(bytes)) << "no message";
  return true;
}

void Frames::Write(absl::string_view bytes) {
  (void)!send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Frames::Finish() {
  shutdown(socket_.get(), SHUT_WR);
  while (Receive()) {
  }
}

std::string TakeStream(Input& input) {
  const bool is_framed = input.Take<uint8_t>() % 4 != 0;
  if (!is_framed) return std::string(input.TakeRest());
  std::string stream;
  while (!input.empty()) stream += MakeFrame(input.TakeRecord());
  return stream;
}

}  // namespace tessera::comm
