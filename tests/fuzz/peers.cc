#include "tests/fuzz/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/net/handshake.h"
#include "collectives/net/proof.h"
#include "core/status/check.h"

namespace tessera::comm {
namespace {

struct JoinedThread {
  ~JoinedThread() {
    if (thread.joinable()) thread.join();
  }
  std::thread thread;
};

}  // namespace

Listening ParseListening(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Listening listening;
  TESSERA_CHECK(words.size() == 5 && absl::SimpleAtoi(words[1], &listening.port)) << text;
  listening.token = words[2];
  return listening;
}

std::string NoListening() { return "127.0.0.1 1 token 4711 node7"; }

void ProveRank(const FileDescriptor& socket, const Listening& listening, int rank, int size) {
  const auto keys =
      ProveIdentity(socket, {kTcpService, listening.token, ""}, {rank, size}, "rank 0",
                    std::chrono::steady_clock::now() + std::chrono::seconds(10));
  TESSERA_CHECK(keys.ok()) << keys.status();
}

std::string HelloFor(absl::string_view acceptor_nonce, const Listening& listening, int rank,
                     int size) {
  const std::string nonce(kNonceBytes, 'n');
  const std::string proof =
      ConnectorProof({"", listening.token, kTcpService, acceptor_nonce, nonce, rank, size});
  return MakeHello(kProtocolVersion, {rank, size}, nonce, proof);
}

std::string ReceiveBytes(const FileDescriptor& socket, int64_t bytes) {
  std::string received(bytes, '\0');
  size_t filled = 0;
  while (filled < received.size()) {
    pollfd event = {socket.get(), POLLIN, 0};
    poll(&event, 1, /*timeout=*/-1);
    const ssize_t got = recv(socket.get(), &received[filled], received.size() - filled, 0);
    if (got > 0) filled += got;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) break;
  }
  received.resize(filled);
  return received;
}

FileDescriptor CallPort(int port) {
  FileDescriptor result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  const linger at_once = {1, 0};
  setsockopt(result.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  const int one = 1;
  setsockopt(result.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  // Connects from many addresses, since the port of a closed connection stays in use for a minute.
  static std::atomic<uint32_t> calls{0};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 256 + ++calls % 65536);
  setsockopt(result.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
  TESSERA_CHECK(bind(result.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
                0)
      << errno;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  // libFuzzer's clock may interrupt the call, but the connection attempt continues.
  while (connect(result.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno != EISCONN) {
    TESSERA_CHECK(errno == EINTR) << errno;
  }
  return result;
}

Exchange ExchangeOfRank0(
    int size, std::function<std::vector<std::string>(const Listening& listening)> describe,
    std::function<void(const Listening& listening)> connect) {
  const auto connecting = std::make_shared<JoinedThread>();
  return [size, connecting, describe = std::move(describe), connect = std::move(connect)](
             absl::string_view key,
             absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    if (key == "tcp/address") {
      const Listening listening = ParseListening(mine);
      std::vector<std::string> texts = describe(listening);
      texts[0] = std::string(mine);
      connecting->thread = std::thread([connect, listening] { connect(listening); });
      return texts;
    }
    if (key == "tcp/connected") connecting->thread.join();
    return std::vector<std::string>(size, std::string(mine));
  };
}

}  // namespace tessera::comm
