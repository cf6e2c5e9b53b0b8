// Connects unauthenticated peers, and ranks that know the secret, to the port of a rank. Checks
// that the rank gets connections with those ranks only. Other inputs replace the description of a
// peer by one that is not an address.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/net/handshake.h"
#include "collectives/tcp/connect.h"
#include "core/status/check.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/peers.h"

namespace tessera::comm {
namespace {

constexpr int kSize = 3;
constexpr size_t kMaxIntruders = 8;

// Returns the port of either end of a connection.
int Port(const FileDescriptor& socket, decltype(getsockname)* name) {
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  name(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return address.sin_port;
}

void Write(const FileDescriptor& socket, absl::string_view bytes) {
  // An error means that the connection has been closed.
  (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// A peer that does not know the secret.
struct Intruder {
  std::string bytes;       // that it sends
  bool is_change = false;  // `bytes` are changes to the valid answer to the challenge
};

std::vector<Intruder> TakeIntruders(Input& input) {
  std::vector<Intruder> intruders;
  while (!input.empty() && intruders.size() < kMaxIntruders) {
    std::string bytes(input.TakeRecord());
    intruders.push_back({std::move(bytes), input.Take<uint8_t>() % 2 == 0});
  }
  return intruders;
}

void Intrude(const FileDescriptor& socket, const Listening& listening, const Intruder& intruder) {
  if (!intruder.is_change) {
    Write(socket, intruder.bytes);
    return;
  }
  const std::string challenge = ReceiveBytes(socket, kChallengeBytes);
  if (static_cast<int64_t>(challenge.size()) != kChallengeBytes) return;
  std::string hello = HelloFor(NonceOfChallenge(challenge), listening, 1, kSize);
  hello.resize(std::min(hello.size(), intruder.bytes.size()));
  bool differs = static_cast<int64_t>(hello.size()) < kHelloBytes;
  for (size_t i = 0; i < hello.size(); ++i) {
    differs = differs || intruder.bytes[i] != 0;
    hello[i] = static_cast<char>(hello[i] ^ intruder.bytes[i]);
  }
  if (!differs) hello.pop_back();
  Write(socket, hello);
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const bool is_description = input.Take<uint8_t>() == 1;
  const std::string description(is_description ? input.TakeRest() : "");
  const std::vector<Intruder> intruders = TakeIntruders(input);
  std::vector<tessera::FileDescriptor> callers;
  const Exchange exchange = ExchangeOfRank0(
      kSize,
      [&](const Listening& listening) {
        std::vector<std::string> texts(kSize, NoListening());
        if (is_description) texts[2] = description;
        return texts;
      },
      [&](const Listening& listening) {
        if (is_description) return;
        for (const Intruder& intruder : intruders) {
          callers.push_back(CallPort(listening.port));
          Intrude(callers.back(), listening, intruder);
        }
        for (int rank = 1; rank < kSize; ++rank) {
          callers.push_back(CallPort(listening.port));
          ProveRank(callers.back(), listening, rank, kSize);
        }
      });
  const auto peers =
      tcp::Connect(0, kSize, exchange, {.timeout_seconds = is_description ? 0.0 : 10.0});
  TESSERA_CHECK(peers.ok() == !is_description) << peers.status();
  if (!peers.ok()) return 0;
  for (int rank = 1; rank < kSize; ++rank) {
    const tessera::FileDescriptor& caller = callers[callers.size() - kSize + rank];
    TESSERA_CHECK(Port((*peers)[rank].socket, getpeername) == Port(caller, getsockname)) << rank;
  }
  return 0;
}
