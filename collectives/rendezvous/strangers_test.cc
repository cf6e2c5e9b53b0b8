// Connections that are none of the job's: they are dropped, and the job goes on as if nothing were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/frame_reader.h"
#include "collectives/rendezvous/framed_connection.h"
#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/proof.h"
#include "collectives/rendezvous/socket.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_client.h"
#include "collectives/rendezvous/store_server.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr seconds kLong{30};

Deadline In(milliseconds time) { return std::chrono::steady_clock::now() + time; }

class StrangersTest : public ::testing::Test {
 protected:
  StrangersTest() {
    StoreServerOptions options;
    options.size = 2;
    options.secret = "secret";
    options.listener = *ListenOn(Reach::kLoopback, 0);
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

  FileDescriptor Stranger() {
    auto socket = ConnectTo("127.0.0.1", server_->port(), In(kLong));
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }

  // A stranger who has read the challenge, for a stream with a request after it.
  struct Guest {
    std::unique_ptr<FramedConnection> connection;
    Challenge challenge;
  };
  Guest TakeChallenge() {
    Guest guest;
    guest.connection = std::make_unique<FramedConnection>(Stranger(), kMaxGreetingBytes);
    EXPECT_TRUE(guest.connection->WaitForNext(&guest.challenge, In(kLong)).ok());
    return guest;
  }
  static StoreRequest RightHello(const Challenge& challenge, int rank) {
    const std::string nonce = RandomBytes(kNonceBytes);
    StoreRequest request;
    request.set_id(1);
    Hello& hello = *request.mutable_hello();
    hello.set_version(kRendezvousVersion);
    hello.set_rank(rank);
    hello.set_size(2);
    hello.set_nonce(nonce);
    hello.set_proof(RankProof({"secret", "", challenge.nonce(), nonce, rank, 2}));
    return request;
  }

  static void Write(const FileDescriptor& socket, const std::string& bytes) {
    // It may have been dropped already.
    (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Whether the other side closes within `time`.
  static bool IsDropped(int socket, milliseconds time) {
    const Deadline deadline = In(time);
    char bytes[4096];
    pollfd event = {socket, POLLIN, 0};
    while (poll(&event, 1, MillisecondsUntil(deadline)) == 1) {
      if (recv(socket, bytes, sizeof(bytes), 0) <= 0) return true;
    }
    return false;
  }

  void ExpectTheJobGoesOn() {
    EXPECT_THAT(rank_0_->LostRanks(), IsEmpty());
    const auto rank_1 = Connect(1);
    ASSERT_TRUE(rank_1.ok()) << rank_1.status();
    ASSERT_TRUE((*rank_1)->Set("key", "value").ok());
    EXPECT_EQ(*rank_0_->Wait("key", kLong), "value");
    EXPECT_TRUE((*rank_1)->Leave(absl::OkStatus()).ok());
  }

  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> rank_0_;
};

TEST_F(StrangersTest, GarbageIsDroppedAtOnce) {
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
    const FileDescriptor socket = Stranger();
    Write(socket, bytes);
    EXPECT_TRUE(IsDropped(socket.get(), kLong)) << bytes.substr(0, 20);
  }
  ExpectTheJobGoesOn();
}

TEST_F(StrangersTest, AnotherRequestThanHelloIsDropped) {
  StoreRequest request;
  request.set_id(1);
  request.mutable_set()->set_key("key");
  request.mutable_set()->set_value("from a stranger");
  const FileDescriptor socket = Stranger();
  Write(socket, MakeFrame(request.SerializeAsString()));
  EXPECT_TRUE(IsDropped(socket.get(), kLong));
  EXPECT_EQ(rank_0_->Wait("key", milliseconds(0)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ExpectTheJobGoesOn();
}

TEST_F(StrangersTest, AProofIsOfNoUseForAnotherConnection) {
  const Guest first = TakeChallenge();
  Guest second = TakeChallenge();
  second.connection->Queue(RightHello(first.challenge, 1));
  ASSERT_TRUE(second.connection->Flush().ok());
  StoreResponse response;
  ASSERT_TRUE(second.connection->WaitForNext(&response, In(kLong)).ok());
  EXPECT_EQ(response.code(), static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_TRUE(IsDropped(second.connection->fd(), kLong));
  ExpectTheJobGoesOn();
}

TEST_F(StrangersTest, AnotherVersionIsNamed) {
  Guest guest = TakeChallenge();
  StoreRequest request = RightHello(guest.challenge, 1);
  request.mutable_hello()->set_version(99);
  guest.connection->Queue(request);
  ASSERT_TRUE(guest.connection->Flush().ok());
  StoreResponse response;
  ASSERT_TRUE(guest.connection->WaitForNext(&response, In(kLong)).ok());
  EXPECT_THAT(response.error(), HasSubstr("version 99"));
  ExpectTheJobGoesOn();
}

TEST_F(StrangersTest, HalfOpenConnectionsMakeRoom) {
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 2 * kMaxStrangers; ++i) {
    strangers.push_back(Stranger());
    if (i % 2 == 0) Write(strangers.back(), "\x10");  // and no more
  }
  const auto start = std::chrono::steady_clock::now();
  ExpectTheJobGoesOn();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kStrangerTimeout);
  // The first of them had to go.
  EXPECT_TRUE(IsDropped(strangers.front().get(), kLong));
}

TEST_F(StrangersTest, AMemberThatSendsGarbageIsLost) {
  Guest guest = TakeChallenge();
  guest.connection->Queue(RightHello(guest.challenge, 1));
  ASSERT_TRUE(guest.connection->Flush().ok());
  StoreResponse welcome;
  ASSERT_TRUE(guest.connection->WaitForNext(&welcome, In(kLong)).ok());
  EXPECT_EQ(welcome.code(), 0) << welcome.error();
  const std::string bytes = MakeFrame("no message");
  ASSERT_GT(send(guest.connection->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  const auto value = rank_0_->Wait("never", kLong);
  EXPECT_THAT(value.status().message(), HasSubstr("rank 1 was lost: it sent what is no message"));
}

TEST_F(StrangersTest, AMemberMayAnnounceALongMessageAndTakesNoMemoryForIt) {
  Guest guest = TakeChallenge();
  guest.connection->Queue(RightHello(guest.challenge, 1));
  ASSERT_TRUE(guest.connection->Flush().ok());
  StoreResponse welcome;
  ASSERT_TRUE(guest.connection->WaitForNext(&welcome, In(kLong)).ok());
  const std::string bytes("\xff\xff\xff\xff", 4);
  ASSERT_GT(send(guest.connection->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(IsDropped(guest.connection->fd(), kLong));
}

// What a rank meets that connects to something else.
TEST(FalseStoreTest, IsNotTakenForTheStore) {
  const auto run = [](const std::string& says, bool closes) {
    const auto listener = *ListenOn(Reach::kLoopback, 0);
    const int port = *PortOf(listener);
    std::atomic<bool> done{false};
    std::thread other([&] {
      std::vector<FileDescriptor> connections;
      while (!done) {
        pollfd event = {listener.get(), POLLIN, 0};
        if (poll(&event, 1, 10) != 1) continue;
        connections.push_back(*AcceptFrom(listener));
        (void)!send(connections.back().get(), says.data(), says.size(), MSG_NOSIGNAL);
        if (closes) connections.pop_back();
      }
    });
    StoreClientOptions options;
    options.find_store = [port](Deadline) { return StoreAddress{"127.0.0.1", port, "secret"}; };
    const auto client = StoreClient::Connect(options, milliseconds(500));
    done = true;
    other.join();
    return std::string(client.status().message());
  };
  EXPECT_THAT(run("HTTP/1.1 400 Bad StoreRequest\r\n\r\n", true), HasSubstr("not the rendezvous"));
  EXPECT_THAT(run("", true), HasSubstr("closed"));
  EXPECT_THAT(run("", false), HasSubstr("no answer"));
  EXPECT_THAT(run(MakeFrame(""), false), HasSubstr("not the rendezvous"));

  // It answers as the store would, and knows no secret.
  Challenge challenge;
  challenge.set_nonce(RandomBytes(kNonceBytes));
  StoreResponse welcome;
  welcome.set_id(1);
  welcome.mutable_welcome()->set_proof(std::string(32, 'x'));
  EXPECT_THAT(
      run(MakeFrame(challenge.SerializeAsString()) + MakeFrame(welcome.SerializeAsString()), false),
      HasSubstr("does not know this job's secret"));
}

}  // namespace
}  // namespace tessera::comm
