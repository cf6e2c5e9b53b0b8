#include "collectives/tcp/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "collectives/net/handshake.h"
#include "collectives/net/socket.h"
#include "collectives/testing/ranks.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kVictim = 1;

// Checks the connections: sends a byte to each peer and receives one.
absl::Status CheckConnections(int rank, const std::vector<Peer>& peers) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (const Peer& peer : peers) {
    const char own = static_cast<char>(rank);
    if (peer.socket.is_open()) send(peer.socket.get(), &own, 1, MSG_NOSIGNAL);
  }
  for (size_t other = 0; other < peers.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    char byte = -1;
    RETURN_IF_ERROR(WaitForEvents(peers[other].socket.get(), POLLIN, deadline));
    if (recv(peers[other].socket.get(), &byte, 1, 0) != 1 || byte != static_cast<char>(other)) {
      return absl::InternalError("another rank is at the other end");
    }
  }
  return absl::OkStatus();
}

// Returns invalid input, from the least to the most similar to that of a rank.
std::vector<std::string> Garbage() {
  const std::string hello = MakeHello(kProtocolVersion, {2, 3}, std::string(32, 'n'), "no proof");
  return {"",
          "x",
          std::string(1000, '\0'),
          std::string(100000, '\xff'),
          "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
          hello.substr(0, 20),
          hello,
          hello + hello};
}

// Connects to the ports of all ranks, which are in the texts that they exchange, before any rank
// does. The connections that stay open are appended to `open`.
Exchange WithIntruders(const Exchange& exchange, std::vector<FileDescriptor>* open, int rounds) {
  return [=](absl::string_view key, absl::string_view mine) {
    auto texts = exchange(key, mine);
    if (key != "tcp/address" || !texts.ok()) return texts;
    for (const std::string& text : *texts) {
      const std::vector<std::string> words = absl::StrSplit(text, ' ');
      int port = 0;
      TESSERA_CHECK(words.size() > 1 && absl::SimpleAtoi(words[1], &port)) << text;
      const SocketAddress address = SocketAddress::Loopback(port);
      for (int round = 0; round < rounds; ++round) {
        for (const std::string& bytes : Garbage()) {
          open->push_back(*StartConnecting(address, nullptr));
          (void)!send(open->back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        }
      }
      (void)StartConnecting(address, nullptr);  // and closes
    }
    return texts;
  };
}

TEST(TcpConnectTest, UnauthenticatedPeersAreDropped) {
  for (const int rounds : {1, 5, 20}) {
    const auto results = RunProcesses(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      std::vector<FileDescriptor> open;
      ASSIGN_OR_RETURN(const std::vector<Peer> peers,
                       Connect(rank, 3, WithIntruders(exchange, &open, rounds), {}));
      return CheckConnections(rank, peers);
    });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(TcpConnectTest, ARankWithAnotherSecretIsRefused) {
  const auto results = RunProcesses(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    NetworkOptions options;
    options.secret = rank == kVictim ? "another" : "secret";
    options.timeout_seconds = 0.5;
    return Connect(rank, 3, exchange, options).status();
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("has no connection with"));
  }
}

TEST(TcpConnectTest, ARankThatDiesBeforeItConnectsIsNamed) {
  const auto results = RunProcesses(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    // This rank takes part only in the last exchange, which would fail otherwise.
    const Exchange dying = [&](absl::string_view key, absl::string_view mine) {
      auto texts = exchange(key, mine);
      if (rank == kVictim && key == "tcp/address") {
        exchange("tcp/connected", "").status().IgnoreError();
        kill(getpid(), SIGKILL);
      }
      return texts;
    };
    return Connect(rank, 3, dying, {.timeout_seconds = 0.5}).status();
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("has no connection with"), HasSubstr("rank 1 (process ")));
  }
}

}  // namespace
}  // namespace tessera::comm::tcp
