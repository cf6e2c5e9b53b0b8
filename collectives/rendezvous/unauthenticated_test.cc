// Connections that do not belong to the job: they are dropped, and do not disturb it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/net/acceptor.h"
#include "collectives/net/frame_digest.h"
#include "collectives/net/handshake.h"
#include "collectives/net/owners.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/frame_reader.h"
#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_client.h"
#include "collectives/rendezvous/store_server.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr seconds kLong{30};

Deadline DeadlineIn(milliseconds time) { return std::chrono::steady_clock::now() + time; }

class UnauthenticatedTest : public ::testing::Test {
 protected:
  UnauthenticatedTest() {
    StoreServerOptions options;
    options.size = 2;
    options.secret = "secret";
    options.listeners.push_back(*ListenOn(Reach::kLoopback, 0));
    server_ = *StoreServer::Start(std::move(options));
    rank_0_ = *Connect(0);
  }

  absl::StatusOr<std::unique_ptr<StoreClient>> Connect(int rank) {
    StoreClientOptions options;
    options.rank = rank;
    options.size = 2;
    options.find_store = [this](Deadline) {
      return StoreAddress{"127.0.0.1", server_->port(), "secret"};
    };
    return StoreClient::Connect(options, kLong);
  }

  FileDescriptor Unauthenticated() {
    auto socket = ConnectTo("127.0.0.1", server_->port(), DeadlineIn(kLong));
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }

  // A connection of rank 1 that has sent nothing yet, for a stream with an unusual hello.
  struct Connector {
    FileDescriptor socket;
    std::string nonce;  // of the store
  };
  Connector TakeChallenge() {
    Connector connector = {Unauthenticated(), ""};
    connector.nonce = NonceOfChallenge(Read(connector.socket, kChallengeBytes));
    return connector;
  }
  static ProofInput ProofOfRank1(const std::string& nonce, const std::string& own_nonce) {
    return {"secret", "", kRendezvousService, nonce, own_nonce, 1, 2};
  }
  static std::string HelloFor(const std::string& nonce, int version = kProtocolVersion) {
    const std::string own_nonce = RandomBytes(kNonceBytes);
    return MakeHello(version, {1, 2}, own_nonce, ConnectorProof(ProofOfRank1(nonce, own_nonce)));
  }
  // The connection of a rank of the job that sends arbitrary bytes as requests.
  struct Rank {
    // The frame of a message, with the digest that belongs to the `number`-th frame.
    std::string Frame(std::string message, uint64_t number = 0) {
      digest.Seal(number, &message);
      return MakeFrame(message);
    }
    FileDescriptor socket;
    FrameDigest digest;  // of what it sends
  };
  Rank Member() {
    Connector connector = TakeChallenge();
    const std::string own_nonce = RandomBytes(kNonceBytes);
    const ProofInput input = ProofOfRank1(connector.nonce, own_nonce);
    Write(connector.socket, MakeHello(kProtocolVersion, {1, 2}, own_nonce, ConnectorProof(input)));
    EXPECT_EQ(Read(connector.socket, kWelcomeBytes)[0], 0);
    return {std::move(connector.socket), FrameDigest(ConnectorKey(input))};
  }
  // Reads the next `bytes` bytes; fewer if the other side closes.
  static std::string Read(const FileDescriptor& socket, int64_t bytes) {
    std::string text(bytes, '\0');
    size_t filled = 0;
    while (filled < text.size() && WaitForEvents(socket.get(), POLLIN, DeadlineIn(kLong)).ok()) {
      const ssize_t got = recv(socket.get(), &text[filled], text.size() - filled, 0);
      if (got <= 0) break;
      filled += got;
    }
    text.resize(filled);
    return text;
  }

  static void Write(const FileDescriptor& socket, const std::string& bytes) {
    // It may have been dropped already.
    (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Returns true if the other side closes within `time`.
  static bool IsDropped(const FileDescriptor& socket, milliseconds time) {
    const Deadline deadline = DeadlineIn(time);
    char bytes[4096];
    while (WaitForEvents(socket.get(), POLLIN, deadline).ok()) {
      if (recv(socket.get(), bytes, sizeof(bytes), 0) <= 0) return true;
    }
    return false;
  }

  void ExpectTheJobGoesOn() {
    EXPECT_EQ(rank_0_->Wait("never", milliseconds(1)).status().code(),
              absl::StatusCode::kDeadlineExceeded);
    const auto rank_1 = Connect(1);
    ASSERT_TRUE(rank_1.ok()) << rank_1.status();
    ASSERT_TRUE((*rank_1)->Set("key", "value").ok());
    EXPECT_EQ(*rank_0_->Wait("key", kLong), "value");
    EXPECT_TRUE((*rank_1)->Leave(absl::OkStatus()).ok());
  }

  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> rank_0_;
};

TEST_F(UnauthenticatedTest, GarbageIsDroppedAtOnce) {
  const std::vector<std::string> garbage = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(100'000, '\xff'),
      std::string("\xff\xff\xff\x7f", 4),
      std::string("\x01\x04\0\0", 4),  // 1025 bytes
      MakeFrame("no message"),
      MakeFrame(""),
      std::string(8, '\0'),
  };
  for (const std::string& bytes : garbage) {
    const FileDescriptor socket = Unauthenticated();
    Write(socket, bytes);
    EXPECT_TRUE(IsDropped(socket, kLong)) << bytes.substr(0, 20);
  }
  ExpectTheJobGoesOn();
}

TEST_F(UnauthenticatedTest, ARequestWithoutAHandshakeIsDropped) {
  StoreRequest request;
  request.mutable_set()->set_key("key");
  request.mutable_set()->set_value("not from a rank");
  const FileDescriptor socket = Unauthenticated();
  Write(socket, MakeFrame(request.SerializeAsString()));
  EXPECT_TRUE(IsDropped(socket, kLong));
  EXPECT_EQ(rank_0_->Wait("key", milliseconds(0)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ExpectTheJobGoesOn();
}

TEST_F(UnauthenticatedTest, AProofIsNotValidForAnotherConnection) {
  const Connector first = TakeChallenge();
  const Connector second = TakeChallenge();
  Write(second.socket, HelloFor(first.nonce));
  EXPECT_EQ(Read(second.socket, kWelcomeBytes)[0],
            static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(IsDropped(second.socket, kLong));
  ExpectTheJobGoesOn();
}

TEST_F(UnauthenticatedTest, AnotherVersionIsNamed) {
  const Connector connector = TakeChallenge();
  Write(connector.socket, HelloFor(connector.nonce, 99));
  EXPECT_THAT(Read(connector.socket, kWelcomeBytes + 20), HasSubstr("the other end speaks"));
  EXPECT_THAT(Read(connector.socket, 20), HasSubstr("version 99"));
  ExpectTheJobGoesOn();
}

TEST_F(UnauthenticatedTest, HalfOpenConnectionsMakeRoom) {
  std::vector<FileDescriptor> sockets;
  for (int i = 0; i < 2 * kMaxUnauthenticated; ++i) {
    sockets.push_back(Unauthenticated());
    if (i % 2 == 0) Write(sockets.back(), "\x10");  // and no more
  }
  const auto start = std::chrono::steady_clock::now();
  ExpectTheJobGoesOn();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kHandshakeTimeout);
  // The oldest one was dropped.
  EXPECT_TRUE(IsDropped(sockets.front(), kLong));
}

TEST_F(UnauthenticatedTest, AMemberThatSendsGarbageIsLost) {
  Rank member = Member();
  Write(member.socket, member.Frame("no message"));
  const auto value = rank_0_->Wait("never", kLong);
  EXPECT_THAT(value.status().message(), HasSubstr("rank 1 was lost: it sent a malformed message"));
}

// Regression: a relay between a rank and the store could change, repeat or add requests.
TEST_F(UnauthenticatedTest, ARequestThatWasChangedOnTheWayIsFound) {
  StoreRequest request;
  request.mutable_set()->set_key("key");
  request.mutable_set()->set_value("value");
  Rank member = Member();
  std::string frame = member.Frame(request.SerializeAsString());
  frame[frame.find("value")] = 'V';
  Write(member.socket, frame);
  EXPECT_THAT(rank_0_->Wait("key", kLong).status().message(),
              AllOf(HasSubstr("rank 1 was lost: its message from 127.0.0.1:"),
                    HasSubstr("to rank 0 was changed on the way (wrong digest)")));
  // The rank learns it too.
  EXPECT_THAT(Read(member.socket, 200), HasSubstr("rank 1's message from 127.0.0.1:"));
}

TEST_F(UnauthenticatedTest, ARequestIsNotTakenTwice) {
  StoreRequest request;
  request.mutable_set()->set_key("key");
  Rank member = Member();
  const std::string frame = member.Frame(request.SerializeAsString());
  Write(member.socket, frame);
  EXPECT_TRUE(rank_0_->Wait("key", kLong).ok());
  Write(member.socket, frame);
  EXPECT_THAT(rank_0_->Wait("never", kLong).status().message(),
              HasSubstr("changed on the way (wrong digest)"));
}

TEST_F(UnauthenticatedTest, ARequestWithoutADigestIsNotTaken) {
  StoreRequest request;
  request.mutable_set()->set_key("key");
  Rank member = Member();
  Write(member.socket, MakeFrame(request.SerializeAsString()));
  EXPECT_THAT(rank_0_->Wait("key", kLong).status().message(), HasSubstr("wrong digest"));
}

// Regression: the store listened until the job ended.
TEST_F(UnauthenticatedTest, NobodyCanConnectOnceAllRanksHaveJoined) {
  const int port = server_->port();
  EXPECT_TRUE(ConnectTo("127.0.0.1", port, DeadlineIn(kLong)).ok());
  const auto rank_1 = Connect(1);
  ASSERT_TRUE(rank_1.ok()) << rank_1.status();
  ASSERT_TRUE((*rank_1)->Set("key", "value").ok());
  EXPECT_FALSE(ConnectTo("127.0.0.1", port, DeadlineIn(kLong)).ok());
  EXPECT_EQ(*rank_0_->Wait("key", kLong), "value");
}

TEST_F(UnauthenticatedTest, AnAnnouncedLengthAllocatesNothing) {
  const Rank member = Member();
  Write(member.socket, std::string("\xff\xff\xff\xff", 4));
  EXPECT_TRUE(IsDropped(member.socket, kLong));
}

// A message of 16 MiB whose 8 million keys are empty took rank 0 400 MiB to parse.
TEST_F(UnauthenticatedTest, AMessageOfMillionsOfFieldsIsRefusedUnparsed) {
  Rank member = Member();
  std::string wait;
  while (wait.size() + 16 < static_cast<size_t>(kMaxMessageBytes)) wait.append("\x0a\0", 2);
  std::string request = "\x1a";  // the field of a wait
  for (size_t length = wait.size(); length > 0; length >>= 7) {
    request.push_back(static_cast<char>((length & 0x7f) | (length > 0x7f ? 0x80 : 0)));
  }
  const std::string frame = member.Frame(request + wait);
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t put = send(member.socket.get(), &frame[sent], frame.size() - sent, MSG_NOSIGNAL);
    if (put > 0) sent += put;
    if (put < 0 && errno != EAGAIN) break;
    if (put < 0) (void)WaitForEvents(member.socket.get(), POLLOUT, DeadlineIn(kLong));
  }
  EXPECT_TRUE(IsDropped(member.socket, kLong));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100 << 10);  // KiB
}

// A rank that connects to another program.
TEST(FalseStoreTest, IsRecognised) {
  // Returns the error of a rank. `sent` is the answer to the first `answers` connections; later
  // ones get none.
  const auto run = [](const std::string& sent, bool closes, size_t answers = SIZE_MAX) {
    const auto listener = *ListenOn(Reach::kLoopback, 0);
    const int port = *PortOf(listener);
    std::atomic<bool> done{false};
    std::thread other([&, answers]() mutable {
      std::vector<FileDescriptor> connections;
      while (!done) {
        pollfd event = {listener.get(), POLLIN, 0};
        if (poll(&event, 1, 10) != 1) continue;
        connections.push_back(*AcceptFrom(listener));
        if (answers == 0) continue;
        --answers;
        (void)!send(connections.back().get(), sent.data(), sent.size(), MSG_NOSIGNAL);
        if (closes) connections.pop_back();
      }
    });
    StoreClientOptions options;
    options.find_store = [port](Deadline) { return StoreAddress{"127.0.0.1", port, "secret"}; };
    const auto client = StoreClient::Connect(options, milliseconds(500));
    const std::string message(client.status().message());
    // Regression: the error did not say whose program it was.
    EXPECT_THAT(message, AllOf(HasSubstr(absl::StrCat("127.0.0.1:", port)),
                               HasSubstr(absl::StrCat(" (process ", getpid(), " (")),
                               HasSubstr(absl::StrCat(" of ", FormatUser(getuid()))),
                               EndsWith(" listens there)")));
    EXPECT_EQ(message.find('\n'), std::string::npos);
    done = true;
    other.join();
    return message;
  };
  EXPECT_THAT(run("HTTP/1.1 400 Bad Request\r\n\r\n", true), HasSubstr("is not Tessera"));
  EXPECT_THAT(run("", true), HasSubstr("closed"));
  EXPECT_THAT(run("", false), HasSubstr("no answer"));
  // The deadline ends the second attempt.
  EXPECT_THAT(run("HTTP/1.1 400 Bad Request\r\n\r\n", true, 1), HasSubstr("is not Tessera"));
  EXPECT_THAT(run(MakeFrame(""), false), HasSubstr("is not Tessera"));
  // It answers as the store would, without knowing the secret.
  EXPECT_THAT(run(MakeChallenge(kProtocolVersion, RandomBytes(kNonceBytes)) +
                      MakeWelcome(absl::OkStatus(), std::string(kProofBytes, 'x')),
                  false),
              HasSubstr("does not know this job's secret"));
  EXPECT_THAT(run(MakeChallenge(kProtocolVersion, RandomBytes(kNonceBytes)) +
                      MakeWelcome(absl::AlreadyExistsError("rank 0 is connected already"), ""),
                  false),
              HasSubstr("which does not prove that it knows this job's secret, refuses this rank: "
                        "rank 0 is connected already"));
  EXPECT_THAT(run(MakeChallenge(99, RandomBytes(kNonceBytes)), false), HasSubstr("version 99"));
}

}  // namespace
}  // namespace tessera::comm
