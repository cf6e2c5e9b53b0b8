// Sends arbitrary input to a store: from unauthenticated peers, in a handshake, and from a rank.
// Checks that the store continues to serve the other ranks.
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "collectives/net/handshake.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_server.h"
#include "core/status/check.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/peers.h"

namespace tessera::comm {
namespace {

constexpr char kSecret[] = "secret";
const std::string kNonce(kNonceBytes, 'n');
constexpr int kSize = 2;

std::unique_ptr<StoreServer> NewServer() {
  StoreServerOptions options;
  options.size = kSize;
  options.secret = kSecret;
  options.listeners.push_back(*ListenOn(Reach::kLoopback, 0));
  return *StoreServer::Start(std::move(options));
}

// A connection whose challenge has been read.
struct Caller {
  explicit Caller(const StoreServer& server) : socket(CallPort(server.port())) {
    const std::string challenge = ReceiveBytes(socket, kChallengeBytes);
    TESSERA_CHECK(static_cast<int64_t>(challenge.size()) == kChallengeBytes) << "the store ended";
    nonce = NonceOfChallenge(challenge);
  }
  FileDescriptor socket;
  std::string nonce;
};

// Sends a hello with a valid proof whose other fields may be wrong. Returns the connection after
// the welcome, if there is one.
Frames Greet(Caller caller, int rank, int size, int version) {
  const ProofInput input = {kSecret, "", kRendezvousService, caller.nonce, kNonce, rank, size};
  const std::string hello = MakeHello(version, {rank, size}, kNonce, ConnectorProof(input));
  TESSERA_CHECK(send(caller.socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) > 0) << "send";
  (void)ReceiveBytes(caller.socket, kWelcomeBytes);
  return Frames(std::move(caller.socket), {ConnectorKey(input), AcceptorKey(input)});
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  if (input.Take<uint8_t>() % 4 == 0) {
    // All inputs use one server, since unauthenticated peers do not change its state.
    static const StoreServer& server = *NewServer().release();
    Frames unauthenticated(std::move(Caller(server).socket));
    unauthenticated.Write(TakeStream(input));
    unauthenticated.Finish();
    return 0;
  }
  const std::unique_ptr<StoreServer> server = NewServer();
  const int rank = 1 + input.Take<int8_t>();
  {
    const int ranks = kSize + input.Take<int8_t>();
    Frames frames = Greet(Caller(*server), rank, ranks, kProtocolVersion + input.Take<int8_t>());
    frames.Write(TakeStream(input));
    frames.Finish();
  }
  TESSERA_CHECK(server->WaitUntilAllLeft(std::chrono::seconds(10))) << "a rank did not leave";
  Frames other = Greet(Caller(*server), rank == 0 ? 1 : 0, kSize, kProtocolVersion);
  StoreRequest request;
  request.mutable_set()->set_key("key");
  request.mutable_set()->set_value("value");
  other.Write(request);
  StoreResponse response;
  TESSERA_CHECK(other.Read(&response)) << "the store ended";
  TESSERA_CHECK(response.code() == 0) << response.error();
  return 0;
}
