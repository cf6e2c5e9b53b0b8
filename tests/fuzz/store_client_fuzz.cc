// Tests a rank whose store sends arbitrary bytes: instead of the challenge, instead of the welcome,
// or after the store has proved that it knows the secret.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/net/handshake.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_client.h"
#include "core/status/check.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/peers.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;

constexpr char kSecret[] = "secret";
constexpr int kRank = 1, kSize = 2;

// The step, during or after the handshake, at which the store sends the fuzzer's bytes.
enum class Step { kInsteadOfChallenge, kInsteadOfWelcome, kBehindWelcome, kInAnswer };

void BeStore(const tessera::FileDescriptor& listener, Step step, const Stream& anything) {
  pollfd event = {listener.get(), POLLIN, 0};
  poll(&event, 1, /*timeout=*/-1);
  auto socket = AcceptFrom(listener);
  TESSERA_CHECK(socket.ok() && socket->is_open()) << socket.status();
  const auto write = [&](absl::string_view bytes) {
    (void)!send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  if (step == Step::kInsteadOfChallenge) return Frames(*std::move(socket)).Write(anything);
  const std::string nonce(kNonceBytes, 'n');
  write(MakeChallenge(kProtocolVersion, nonce));
  const std::string hello = ReceiveBytes(*socket, kHelloBytes);
  if (static_cast<int64_t>(hello.size()) != kHelloBytes) return;
  if (step == Step::kInsteadOfWelcome) return Frames(*std::move(socket)).Write(anything);
  const std::string connector_nonce = NonceOfHello(hello);
  const ProofInput input = {kSecret, "", kRendezvousService, nonce, connector_nonce, kRank, kSize};
  write(MakeWelcome(absl::OkStatus(), AcceptorProof(input)));
  Frames rank(*std::move(socket), {AcceptorKey(input), ConnectorKey(input)});
  StoreRequest request;
  if (step == Step::kInAnswer && !rank.Read(&request)) return;
  rank.Write(anything);
}

void Ask(StoreClient& store, uint8_t what) {
  std::vector<std::string> missing;
  switch (what % 3) {
    case 0:
      (void)store.Set("key", "value");
      break;
    case 1: {
      const auto values = store.WaitAll({"one", "two"}, milliseconds(100), &missing);
      TESSERA_CHECK(!values.ok() || values->size() == 2) << values->size();
      break;
    }
    default:
      (void)store.Leave(absl::OkStatus());
  }
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  static const tessera::FileDescriptor& listener =
      *new tessera::FileDescriptor(*ListenOn(Reach::kLoopback, 0));
  Input input(data, size);
  const Step step = static_cast<Step>(input.Take<uint8_t>() % 4);
  const auto what = input.Take<uint8_t>();
  const Stream anything = TakeStream(input);
  std::thread store([&] { BeStore(listener, step, anything); });

  StoreClientOptions options;
  options.rank = kRank;
  options.size = kSize;
  options.find_store = [](Deadline) {
    return StoreAddress{"127.0.0.1", *PortOf(listener), kSecret};
  };
  // The time-out is so short that an attempt that cannot succeed is not repeated.
  const bool is_welcome = step == Step::kBehindWelcome || step == Step::kInAnswer;
  const auto client = StoreClient::Connect(options, milliseconds(is_welcome ? 10'000 : 5));
  TESSERA_CHECK(client.ok() == is_welcome) << client.status();
  if (client.ok()) Ask(**client, what);
  store.join();
  return 0;
}
