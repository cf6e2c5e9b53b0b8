// A rank whose store says anything: at once, for a welcome, or when it has proved that it knows the
// secret and is asked for something.
#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/proof.h"
#include "collectives/rendezvous/socket.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_client.h"
#include "core/status/check.h"
#include "tests/fuzz/frames.h"
#include "tests/fuzz/input.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;

constexpr char kSecret[] = "secret";
constexpr int kRank = 1, kSize = 2;

// What the store says instead of the right thing.
enum class Says { kInsteadOfChallenge, kInsteadOfWelcome, kBehindWelcome, kInAnswer };

void BeStore(const tessera::FileDescriptor& listener, Says says, const std::string& anything) {
  pollfd event = {listener.get(), POLLIN, 0};
  poll(&event, 1, /*timeout=*/-1);
  auto socket = AcceptFrom(listener);
  TESSERA_CHECK(socket.ok() && socket->is_open()) << socket.status();
  Frames rank(*std::move(socket));
  if (says == Says::kInsteadOfChallenge) {
    rank.Write(anything);
    return;
  }
  Challenge challenge;
  challenge.set_version(kRendezvousVersion);
  challenge.set_nonce(std::string(kNonceBytes, 'n'));
  rank.Write(challenge);
  StoreRequest request;
  if (!rank.Read(&request)) return;
  if (says == Says::kInsteadOfWelcome) {
    rank.Write(anything);
    return;
  }
  StoreResponse welcome;
  welcome.set_id(request.id());
  welcome.mutable_welcome()->set_proof(
      StoreProof({kSecret, "", challenge.nonce(), request.hello().nonce(), kRank, kSize}));
  rank.Write(welcome);
  if (says == Says::kInAnswer && !rank.Read(&request)) return;
  rank.Write(anything);
}

void Ask(StoreClient& store, uint8_t what) {
  std::vector<std::string> missing;
  switch (what % 4) {
    case 0:
      (void)store.Set("key", "value");
      break;
    case 1: {
      const auto values = store.WaitAll({"one", "two"}, milliseconds(100), &missing);
      TESSERA_CHECK(!values.ok() || values->size() == 2) << values->size();
      break;
    }
    case 2:
      (void)store.Add("number", 1);
      break;
    default:
      (void)store.Leave(absl::OkStatus());
  }
  for (const LostRank& lost : store.LostRanks()) (void)lost.why.size();
}

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  static const tessera::FileDescriptor& listener =
      *new tessera::FileDescriptor(*ListenOn(Reach::kLoopback, 0));
  Input input(data, size);
  const Says says = static_cast<Says>(input.Take<uint8_t>() % 4);
  const auto what = input.Take<uint8_t>();
  const std::string anything = TakeStream(input);
  std::thread store([&] { BeStore(listener, says, anything); });

  StoreClientOptions options;
  options.rank = kRank;
  options.size = kSize;
  options.find_store = [](Deadline) {
    return StoreAddress{"127.0.0.1", *PortOf(listener), kSecret};
  };
  // So short that there is one attempt, where there is no hope.
  const bool is_welcome = says == Says::kBehindWelcome || says == Says::kInAnswer;
  const auto client = StoreClient::Connect(options, milliseconds(is_welcome ? 10'000 : 5));
  TESSERA_CHECK(client.ok() == is_welcome) << client.status();
  if (client.ok()) Ask(**client, what);
  store.join();
  return 0;
}
