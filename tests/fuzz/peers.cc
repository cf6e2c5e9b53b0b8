#include "tests/fuzz/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/status/check.h"

namespace tessera::comm {

Listening ParseListening(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Listening listening;
  TESSERA_CHECK(words.size() == 5 && absl::SimpleAtoi(words[1], &listening.port)) << text;
  listening.secret = absl::HexStringToBytes(words[2]);
  return listening;
}

std::string NoListening() {
  return absl::StrCat("127.0.0.1 1 ", std::string(32, '0'), " 4711 node7");
}

std::string GreetingOf(int from, int to, const std::string& secret) {
  const uint32_t numbers[] = {0x01020304, static_cast<uint32_t>(from), static_cast<uint32_t>(to),
                              0};
  return absl::StrCat("Tessera1",
                      absl::string_view(reinterpret_cast<const char*>(numbers), sizeof(numbers)),
                      secret);
}

FileDescriptor CallPort(int port) {
  FileDescriptor result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  const linger at_once = {1, 0};
  setsockopt(result.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  const int one = 1;
  setsockopt(result.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  // From many addresses: the port of a connection that was closed stays in use for a minute.
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
  // libFuzzer's clock may interrupt it, and it goes on.
  while (connect(result.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno != EISCONN) {
    TESSERA_CHECK(errno == EINTR) << errno;
  }
  return result;
}

Exchange ExchangeOfRank0(
    int size, std::function<std::vector<std::string>(const Listening& listening)> called) {
  return [size, called = std::move(called)](
             absl::string_view key,
             absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    if (key != "tcp/address") return std::vector<std::string>(size, std::string(mine));
    std::vector<std::string> texts = called(ParseListening(mine));
    texts[0] = std::string(mine);
    return texts;
  };
}

}  // namespace tessera::comm
