// What comes to a store: from strangers, in a greeting, and from a rank. It goes on for the others.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/proof.h"
#include "collectives/rendezvous/socket.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_server.h"
#include "core/status/check.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/peers.h"

namespace tessera::comm {
namespace {

constexpr char kSecret[] = "secret";
constexpr int kSize = 2;

std::unique_ptr<StoreServer> NewServer() {
  StoreServerOptions options;
  options.size = kSize;
  options.secret = kSecret;
  options.listener = *ListenOn(Reach::kLoopback, 0);
  return *StoreServer::Start(std::move(options));
}

// A connection that has been challenged.
struct Caller {
  explicit Caller(const StoreServer& server) : frames(CallPort(server.port())) {
    TESSERA_CHECK(frames.Read(&challenge)) << "the store has gone";
  }
  Frames frames;
  Challenge challenge;
};

// Whoever knows the secret may still be wrong.
void Greet(Caller& caller, int rank, int size, int version) {
  StoreRequest request;
  request.set_id(1);
  Hello& hello = *request.mutable_hello();
  hello.set_version(version);
  hello.set_rank(rank);
  hello.set_size(size);
  hello.set_nonce("nonce");
  hello.set_proof(RankProof({kSecret, "", caller.challenge.nonce(), "nonce", rank, size}));
  caller.frames.Write(request);
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  if (input.Take<uint8_t>() % 4 == 0) {
    // The same for all: strangers leave nothing behind.
    static const StoreServer& server = *NewServer().release();
    Caller stranger(server);
    stranger.frames.Write(TakeStream(input));
    stranger.frames.Finish();
    return 0;
  }
  const std::unique_ptr<StoreServer> server = NewServer();
  const int rank = 1 + input.Take<int8_t>();
  {
    Caller caller(*server);
    const int ranks = kSize + input.Take<int8_t>();
    Greet(caller, rank, ranks, kRendezvousVersion + input.Take<int8_t>());
    caller.frames.Write(TakeStream(input));
    caller.frames.Finish();
  }
  TESSERA_CHECK(server->WaitUntilAllLeft(std::chrono::seconds(10))) << "a rank did not leave";
  Caller other(*server);
  Greet(other, rank == 0 ? 1 : 0, kSize, kRendezvousVersion);
  StoreRequest request;
  request.set_id(2);
  request.mutable_set()->set_key("key");
  request.mutable_set()->set_value("value");
  other.frames.Write(request);
  StoreResponse response;
  while (response.id() != 2) {
    TESSERA_CHECK(other.frames.Read(&response)) << "the store has gone";
  }
  TESSERA_CHECK(response.code() == 0) << response.error();
  return 0;
}
