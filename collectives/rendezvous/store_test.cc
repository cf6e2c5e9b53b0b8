#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/net/handshake.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/store_client.h"
#include "collectives/rendezvous/store_server.h"
#include "collectives/testing/relay.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr seconds kLong{30};

std::unique_ptr<StoreServer> Serve(int size, const std::string& secret = "secret") {
  StoreServerOptions options;
  options.size = size;
  options.job = "job";
  options.secret = secret;
  options.listeners.push_back(*ListenOn(Reach::kLoopback, 0));
  auto server = StoreServer::Start(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

StoreClientOptions ClientOptions(int port, int rank, int size,
                                 const std::string& secret = "secret") {
  StoreClientOptions options;
  options.rank = rank;
  options.size = size;
  options.job = "job";
  options.find_store = [port, secret](Deadline) { return StoreAddress{"127.0.0.1", port, secret}; };
  return options;
}

std::unique_ptr<StoreClient> Connect(int port, int rank, int size) {
  auto client = StoreClient::Connect(ClientOptions(port, rank, size), kLong);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

void ForEachRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(StoreTest, RanksExchangeValues) {
  constexpr int kSize = 8;
  const auto server = Serve(kSize);
  ForEachRank(kSize, [&](int rank) {
    const auto client = Connect(server->port(), rank, kSize);
    ASSERT_TRUE(client->Set(absl::StrCat("from/", rank), absl::StrCat("value ", rank)).ok());
    const int next = (rank + 1) % kSize;
    EXPECT_EQ(*client->Wait(absl::StrCat("from/", next), kLong), absl::StrCat("value ", next));
    const std::vector<std::string> keys = {"from/7", "from/0"};
    EXPECT_THAT(*client->WaitAll(keys, kLong), ElementsAre("value 7", "value 0"));
    EXPECT_TRUE(client->Leave(absl::OkStatus()).ok());
  });
  EXPECT_TRUE(server->WaitUntilAllLeft(kLong));
}

TEST(StoreTest, HundredsOfRanks) {
  constexpr int kSize = 300;
  const auto server = Serve(kSize);
  std::vector<std::unique_ptr<StoreClient>> clients(kSize);
  constexpr int kThreads = 10;
  ForEachRank(kThreads, [&](int thread) {
    for (int rank = thread; rank < kSize; rank += kThreads) {
      clients[rank] = Connect(server->port(), rank, kSize);
      ASSERT_TRUE(clients[rank]->Set(absl::StrCat(rank), "x").ok());
    }
  });
  std::vector<std::string> keys;
  for (int rank = 0; rank < kSize; ++rank) keys.push_back(absl::StrCat(rank));
  for (const auto& client : clients) EXPECT_EQ(client->WaitAll(keys, kLong)->size(), kSize);
}

TEST(StoreTest, LongValuesAndBytes) {
  const auto server = Serve(2);
  const auto client = Connect(server->port(), 0, 2);
  const auto other = Connect(server->port(), 1, 2);
  std::string value(kMaxValueBytes, '\0');
  for (size_t i = 0; i < value.size(); i += 97) value[i] = static_cast<char>(i);
  ASSERT_TRUE(client->Set("long", value).ok());
  EXPECT_TRUE(*other->Wait("long", kLong) == value);
  EXPECT_EQ(client->Set("longer", value + "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client->Set(std::string(kMaxKeyBytes + 1, 'k'), "").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*other->Wait("long", milliseconds(0)), value);
}

TEST(StoreTest, AWaitThatTimesOutNamesTheKey) {
  const auto server = Serve(1);
  const auto client = Connect(server->port(), 0, 1);
  ASSERT_TRUE(client->Set("here", "").ok());
  std::vector<std::string> missing;
  const auto values = client->WaitAll({"here", "not", "never"}, milliseconds(50), &missing);
  EXPECT_EQ(values.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(values.status().message(), AllOf(HasSubstr("'not'"), HasSubstr("0.05 s")));
  EXPECT_THAT(missing, ElementsAre("not", "never"));
  EXPECT_EQ(client->Wait("not", milliseconds(0)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(client->Set("not", "").ok());
}

TEST(StoreTest, ALostRankEndsWaitsAndIsNamed) {
  const auto server = Serve(3);
  const auto client = Connect(server->port(), 0, 3);
  auto lost = Connect(server->port(), 2, 3);
  ASSERT_TRUE(lost->Set("last words", "ouch").ok());
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    lost.reset();
  });
  const auto value = client->Wait("never", kLong);
  killer.join();
  EXPECT_EQ(value.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(value.status().message(), HasSubstr("rank 2 was lost: its connection"));
  EXPECT_EQ(*client->Wait("last words", milliseconds(0)), "ouch");

  // So do those of a rank that connects later.
  const auto late = Connect(server->port(), 1, 3);
  const absl::Status late_status = late->Wait("never", kLong).status();
  EXPECT_EQ(late_status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(late_status.message(), HasSubstr("rank 2 was lost"));
}

TEST(StoreTest, TheErrorWithWhichARankLeavesIsReported) {
  const auto server = Serve(2);
  const auto client = Connect(server->port(), 0, 2);
  const auto failed = Connect(server->port(), 1, 2);
  EXPECT_TRUE(failed->Leave(absl::InternalError("the loss is not finite")).ok());
  EXPECT_THAT(client->Wait("never", kLong).status().message(),
              HasSubstr("rank 1 was lost: the loss is not finite"));
  EXPECT_TRUE(client->Leave(absl::InternalError(std::string(1 << 20, 'x'))).ok());
}

TEST(StoreTest, ErrorsNeedNotBeUtf8AndMayBeLong) {
  std::string longer = "x";
  for (int i = 0; i < 100'000; ++i) longer += "\xc3\xa4";
  for (const std::string& error : {std::string("cannot read \xff\xfe"), longer}) {
    const auto server = Serve(2);
    const auto client = Connect(server->port(), 0, 2);
    const auto failed = Connect(server->port(), 1, 2);
    EXPECT_TRUE(failed->Leave(absl::InternalError(error)).ok());
    EXPECT_EQ(client->Wait("never", kLong).status().message(),
              absl::StrCat("rank 1 was lost: ", error.substr(0, kMaxReasonBytes),
                           " (while waiting for 'never')"));
    EXPECT_TRUE(client->Set("still \xff", "here").ok());
  }
}

TEST(StoreTest, ARankThatHasLeftIsNotLost) {
  const auto server = Serve(2);
  const auto client = Connect(server->port(), 0, 2);
  {
    const auto other = Connect(server->port(), 1, 2);
    EXPECT_FALSE(server->WaitUntilAllLeft(milliseconds(1)));
    EXPECT_TRUE(other->Leave(absl::OkStatus()).ok());
  }
  EXPECT_EQ(client->Wait("never", milliseconds(100)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(StoreTest, TheEndOfTheServerEndsEverything) {
  auto server = Serve(2);
  const auto client = Connect(server->port(), 1, 2);
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    server.reset();
  });
  const auto value = client->Wait("never", kLong);
  killer.join();
  EXPECT_EQ(value.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(value.status().message(), HasSubstr("rank 0"));
  EXPECT_EQ(client->Set("a", "b").code(), absl::StatusCode::kUnavailable);
}

TEST(StoreTest, AClientWhoseStoreDidNotAnswerIsNotUsedAgain) {
  const auto listener = *ListenOn(Reach::kLoopback, 0);
  FileDescriptor silent;
  std::thread store([&] {
    const Deadline deadline = std::chrono::steady_clock::now() + kLong;
    ASSERT_TRUE(WaitForEvents(listener.get(), POLLIN, deadline).ok());
    AcceptorHandshake handshake(*AcceptFrom(listener));
    const HandshakeKey key = {kRendezvousService, "job", "secret"};
    while (!(*handshake.Advance(key)).has_value()) {
      ASSERT_TRUE(WaitForEvents(handshake.fd(), POLLIN, deadline).ok());
    }
    silent = handshake.Welcome();
  });
  const auto client = Connect(*PortOf(listener), 0, 1);
  store.join();
  const absl::Status left = client->Leave(absl::InternalError("failed"));
  EXPECT_EQ(left.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(left.message(), HasSubstr("sends no answer"));
  // An answer that arrives now would be taken for that of the next call.
  EXPECT_EQ(client->Set("key", "value"), left);
}

// Returns the client of rank 1, which connects past a relay that changes `text`.
std::unique_ptr<StoreClient> ConnectPast(std::list<Relay>* relays, int port, const char* text) {
  std::vector<RelayPort> ports;
  ports.push_back({*ListenOn(Reach::kLoopback, 0), [port] {
                     return ConnectTo("127.0.0.1", port, std::chrono::steady_clock::now() + kLong);
                   }});
  const int relays_port = *PortOf(ports[0].listener);
  relays->emplace_back(std::move(ports), text);
  return Connect(relays_port, 1, 2);
}

// Regression: a relay between a rank and the store could change what they exchange, unseen.
TEST(StoreTest, AChangeOnTheWayIsFound) {
  constexpr char kText[] = "10.0.0.2 port 40123";
  for (const bool rank_1_sends : {true, false}) {
    const auto server = Serve(2);
    std::list<Relay> relays;
    const auto rank_0 = Connect(server->port(), 0, 2);
    const auto rank_1 = ConnectPast(&relays, server->port(), kText);
    ASSERT_TRUE(rank_1->Set("key", "another text").ok());
    EXPECT_EQ(*rank_1->Wait("key", kLong), "another text");
    const absl::Status sent = (rank_1_sends ? rank_1 : rank_0)->Set("address", kText);
    const absl::Status received = rank_1_sends ? sent : rank_1->Wait("address", kLong).status();
    EXPECT_EQ(received.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(received.message(),
                AllOf(HasSubstr(rank_1_sends ? "rank 1's message from 127.0.0.1:"
                                             : "the answer of rank 0's store at 127.0.0.1:"),
                      HasSubstr("was changed on the way (wrong digest)")));
    EXPECT_EQ(relays.front().changes(), 1);
    if (rank_1_sends) {
      EXPECT_THAT(rank_0->Wait("address", kLong).status().message(),
                  AllOf(HasSubstr("rank 1 was lost: its message from 127.0.0.1:"),
                        HasSubstr("was changed on the way (wrong digest)")));
    }
  }
}

TEST(StoreTest, RefusesAtOnceWithTheReason) {
  const auto server = Serve(2);
  const int port = server->port();
  const auto first = Connect(port, 1, 2);
  const auto error = [](const StoreClientOptions& options) {
    return StoreClient::Connect(options, kLong).status();
  };
  const absl::Status twice = error(ClientOptions(port, 1, 2));
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(twice.message(), HasSubstr("rank 1 is connected already"));
  const absl::Status size = error(ClientOptions(port, 0, 3));
  EXPECT_EQ(size.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(size.message(), HasSubstr("rank 0 of 3"));
  EXPECT_EQ(error(ClientOptions(port, 2, 2)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error(ClientOptions(port, -1, 2)).code(), absl::StatusCode::kInvalidArgument);
  for (const char* secret : {"", "Secret", "secret "}) {
    const absl::Status wrong = error(ClientOptions(port, 0, 2, secret));
    EXPECT_EQ(wrong.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(wrong.message(), HasSubstr("TESSERA_SECRET"));
  }
  StoreClientOptions other_job = ClientOptions(port, 0, 2);
  other_job.job = "another";
  EXPECT_EQ(error(other_job).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(first->Wait("never", milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(first->Set("still", "here").ok());
}

TEST(StoreTest, AnEmptySecretWorks) {
  const auto server = Serve(1, "");
  EXPECT_TRUE(StoreClient::Connect(ClientOptions(server->port(), 0, 1, ""), kLong).ok());
}

TEST(StoreTest, ConnectsWhenTheServerStartsLater) {
  auto listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  listener.Close();
  std::unique_ptr<StoreServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(50));
    StoreServerOptions options;
    options.job = "job";
    options.secret = "secret";
    options.listeners.push_back(*ListenOn(Reach::kLoopback, port));
    server = *StoreServer::Start(std::move(options));
  });
  EXPECT_TRUE(StoreClient::Connect(ClientOptions(port, 0, 1), kLong).ok());
  late.join();
}

TEST(StoreTest, NobodyListens) {
  auto listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  listener.Close();
  const auto client = StoreClient::Connect(ClientOptions(port, 3, 4), milliseconds(60));
  EXPECT_EQ(client.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(client.status().message(),
              AllOf(HasSubstr("rank 3 of 4 did not reach rank 0 within 0.06 s"),
                    HasSubstr(absl::StrCat("127.0.0.1:", port)), HasSubstr("refused")));
}

}  // namespace
}  // namespace tessera::comm
