#include "collectives/net/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "collectives/net/acceptor.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const HandshakeKey kKey = {kTcpService, "job", "the secret"};
constexpr RankClaim kClaim = {1, 4};

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(10); }

// Both ends of a connection; the test itself forwards the bytes of each end.
class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() { Reset(); }
  void Reset() {
    MakePair(&acceptor_socket_, &acceptor_wire_);
    MakePair(&connector_socket_, &connector_wire_);
    wire_.clear();
    claim_.reset();
    is_done_ = false;
    acceptor_error_ = connector_error_ = absl::OkStatus();
  }
  static void MakePair(FileDescriptor* end, FileDescriptor* wire) {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *end = FileDescriptor(fds[0]);
    *wire = FileDescriptor(fds[1]);
  }
  // Forwards the bytes that `from` has received, and keeps a copy in `wire_`.
  void Pass(const FileDescriptor& from, const FileDescriptor& to) {
    char bytes[4096];
    const ssize_t got = recv(from.get(), bytes, sizeof(bytes), 0);
    if (got <= 0) return;
    wire_.append(bytes, got);
    for (ssize_t i = 0; i < got; ++i) {
      ASSERT_EQ(send(to.get(), bytes + i, 1, MSG_NOSIGNAL), 1);
      if (to.get() == acceptor_wire_.get()) {
        AdvanceAcceptor();
      } else {
        AdvanceConnector();
      }
    }
  }
  void AdvanceAcceptor() {
    if (claim_.has_value() || !acceptor_error_.ok()) return;
    const auto claim = acceptor_->Advance(acceptor_key_);
    if (!claim.ok()) {
      acceptor_error_ = claim.status();
      acceptor_->Refuse(acceptor_error_);
    } else if (claim->has_value()) {
      claim_ = **claim;
      acceptor_socket_ = acceptor_->Welcome();
    }
  }
  void AdvanceConnector() {
    if (is_done_ || !connector_error_.ok()) return;
    const auto done = connector_->Advance(connector_socket_);
    connector_error_ = done.status();
    is_done_ = done.ok() && *done;
  }
  void Run(HandshakeKey connector_key) {
    acceptor_.emplace(std::move(acceptor_socket_));
    connector_.emplace(std::move(connector_key), kClaim, "node1:1");
    for (int i = 0; i < 3; ++i) {
      Pass(acceptor_wire_, connector_wire_);
      Pass(connector_wire_, acceptor_wire_);
    }
  }

  FileDescriptor acceptor_socket_, acceptor_wire_, connector_socket_, connector_wire_;
  HandshakeKey acceptor_key_ = kKey;
  std::optional<AcceptorHandshake> acceptor_;
  std::optional<ConnectorHandshake> connector_;
  std::string wire_;
  std::optional<RankClaim> claim_;
  bool is_done_ = false;
  absl::Status acceptor_error_, connector_error_;
};

TEST_F(HandshakeTest, BothEndsKnowTheSecret) {
  Run(kKey);
  EXPECT_TRUE(is_done_) << connector_error_;
  ASSERT_TRUE(claim_.has_value()) << acceptor_error_;
  EXPECT_EQ(claim_->rank, 1);
  EXPECT_EQ(claim_->size, 4);
}

TEST_F(HandshakeTest, BothEndsHaveTheSameKeys) {
  std::set<std::string> seen;
  for (int connection = 0; connection < 3; ++connection) {
    Reset();
    Run(kKey);
    ASSERT_TRUE(is_done_ && claim_.has_value());
    const SessionKeys accepted = acceptor_->keys(), connected = connector_->keys();
    EXPECT_EQ(accepted.send, connected.receive);
    EXPECT_EQ(accepted.receive, connected.send);
    for (const std::string& key : {accepted.send, accepted.receive}) {
      EXPECT_EQ(key.size(), kSessionKeyBytes);
      EXPECT_FALSE(absl::StrContains(wire_, key));
      seen.insert(key);
    }
  }
  EXPECT_EQ(seen.size(), 6);
}

// Regression: connections of tcp sent the secret in clear text.
TEST_F(HandshakeTest, TheSecretIsNotSent) {
  Run(kKey);
  EXPECT_TRUE(is_done_);
  EXPECT_EQ(static_cast<int64_t>(wire_.size()), kChallengeBytes + kHelloBytes + kWelcomeBytes);
  EXPECT_FALSE(absl::StrContains(wire_, kKey.secret));
}

TEST_F(HandshakeTest, NothingBehindTheHandshakeIsRead) {
  Run(kKey);
  ASSERT_TRUE(is_done_ && claim_.has_value());
  ASSERT_EQ(send(connector_wire_.get(), "next", 4, 0), 4);
  char bytes[8];
  EXPECT_EQ(recv(connector_socket_.get(), bytes, sizeof(bytes), 0), 4);
}

TEST_F(HandshakeTest, AnotherSecretJobOrServiceIsRefused) {
  for (const HandshakeKey& other : {HandshakeKey{kTcpService, "job", "another secret"},
                                    HandshakeKey{kTcpService, "another job", "the secret"},
                                    HandshakeKey{kRendezvousService, "job", "the secret"}}) {
    Reset();
    Run(other);
    EXPECT_FALSE(claim_.has_value());
    EXPECT_EQ(connector_error_.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(connector_error_.message(),
                AllOf(HasSubstr("node1:1, which does not prove that it knows this job's secret"),
                      HasSubstr("TESSERA_SECRET")));
  }
}

// Regression: any program that listened at rank 0's address could end a rank, and the error did not
// say who had sent it.
TEST_F(HandshakeTest, ARefusalWithoutAProofNamesItsSender) {
  connector_.emplace(kKey, kClaim, "node1:1");
  const std::string bytes = MakeChallenge(kProtocolVersion, std::string(kNonceBytes, 'n')) +
                            MakeWelcome(absl::AlreadyExistsError("rank 1 is connected"), "");
  ASSERT_EQ(send(connector_wire_.get(), bytes.data(), bytes.size(), 0), bytes.size());
  while (connector_error_.ok()) AdvanceConnector();
  EXPECT_EQ(connector_error_.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(connector_error_.message(),
            "the program at node1:1, which does not prove that it knows this job's secret, refuses "
            "this rank: rank 1 is connected");
}

TEST(AcceptorTest, AdmitsRanksAndTellsOthersWhyNot) {
  std::vector<FileDescriptor> listeners;
  listeners.push_back(*ListenOn(Reach::kLoopback, 0));
  listeners.push_back(*ListenOn(Reach::kLoopback, 0));
  const std::vector<int> ports = {*PortOf(listeners[0]), *PortOf(listeners[1])};
  Acceptor acceptor(std::move(listeners), kKey, [](const RankClaim& claim) {
    return claim.rank == 1 ? absl::OkStatus() : absl::AlreadyExistsError("\x1b[31m not you");
  });
  const auto connect = [&](int rank, int port) {
    const FileDescriptor socket = *ConnectTo("127.0.0.1", port, Soon());
    ConnectorHandshake handshake(kKey, {rank, 4}, "there");
    SessionKeys keys;
    while (true) {
      std::vector<pollfd> events;
      acceptor.AppendEvents(&events);
      poll(events.data(), events.size(), 10);
      for (const Acceptor::Connection& connection : acceptor.Advance(events)) {
        EXPECT_EQ(connection.rank, rank);
        keys = connection.keys;
      }
      const absl::StatusOr<bool> done = handshake.Advance(socket);
      if (done.ok() && *done) {
        EXPECT_EQ(keys.send, handshake.keys().receive);
      }
      if (!done.ok() || *done) return done.status();
    }
  };
  for (const int port : ports) {
    EXPECT_TRUE(connect(1, port).ok());
    const absl::Status refused = connect(2, port);
    EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(refused.message(), "\\x1b[31m not you");  // nothing that a terminal would act on
  }
  acceptor.Close();
  for (const int port : ports) EXPECT_FALSE(ConnectTo("127.0.0.1", port, Soon()).ok());
}

}  // namespace
}  // namespace tessera::comm
