// Strangers come to the port of a rank, and a peer that knows its secret: the rank gets a
// connection with the peer, and nothing else for one. Or what a peer says of itself is no address.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/tcp/connect.h"
#include "core/status/check.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/peers.h"

namespace tessera::comm {
namespace {

constexpr int kSize = 3;
constexpr size_t kStrangers = 8;

// Of one end, or of the other.
int Port(int socket, decltype(getsockname)* name) {
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  name(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return address.sin_port;
}

void Write(const tessera::FileDescriptor& socket, absl::string_view bytes) {
  // It may have been closed already.
  (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const bool is_own = input.Take<uint8_t>() != 1;  // what a peer says of itself
  std::vector<tessera::FileDescriptor> callers;
  const Exchange exchange = ExchangeOfRank0(kSize, [&](const Listening& listening) {
    std::vector<std::string> texts(kSize, NoListening());
    const std::string right = GreetingOf(1, 0, listening.secret);
    if (!is_own) {
      texts[2] = std::string(input.TakeRest());
      return texts;
    }
    while (!input.empty() && callers.size() < kStrangers) {
      callers.push_back(CallPort(listening.port));
      std::string bytes(input.TakeRecord());
      // What is like the right greeting, with changes: then it is not the first bytes that differ.
      if (input.Take<uint8_t>() % 2 == 0) {
        bytes.resize(std::min(bytes.size(), right.size()));
        bool differs = bytes.size() < right.size();
        for (size_t i = 0; i < bytes.size(); ++i) {
          differs = differs || bytes[i] != 0;
          bytes[i] = static_cast<char>(bytes[i] ^ right[i]);
        }
        if (!differs) bytes.pop_back();
      }
      // Neither has guessed the secret.
      if (bytes.size() >= right.size() && bytes.substr(24, 16) == listening.secret)
        bytes.pop_back();
      Write(callers.back(), bytes);
    }
    for (int rank = 1; rank < kSize; ++rank) {
      callers.push_back(CallPort(listening.port));
      Write(callers.back(), GreetingOf(rank, 0, listening.secret));
    }
    return texts;
  });
  const auto peers = tcp::Connect(0, kSize, exchange, "", /*timeout_seconds=*/is_own ? 10 : 0);
  TESSERA_CHECK(peers.ok() || !is_own) << peers.status();
  if (!peers.ok()) return 0;
  for (int rank = 1; rank < kSize; ++rank) {
    const int caller = callers[callers.size() - kSize + rank].get();
    const int socket = (*peers)[rank].socket;
    TESSERA_CHECK(Port(socket, getpeername) == Port(caller, getsockname)) << rank;
  }
  callers.clear();
  for (int rank = 1; rank < kSize; ++rank) close((*peers)[rank].socket);
  return 0;
}
