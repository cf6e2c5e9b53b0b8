#include "collectives/rendezvous/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/environment.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr seconds kLong{30};

void ForEachRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// The environment that tools/launch sets; rank 0's descriptor may be -1.
RankEnvironment Launched(int rank, int size, int port, int listen_fd = -1) {
  RankEnvironment environment;
  environment.launcher = "tessera";
  environment.rank = environment.local_rank = rank;
  environment.size = environment.local_size = size;
  environment.master_port = port;
  environment.secret = "secret";
  if (rank == 0) environment.listen_fd = listen_fd;
  return environment;
}

// The environment that Open MPI sets on one host.
RankEnvironment LocalJob(const std::string& job, int rank, int size) {
  RankEnvironment environment = Launched(rank, size, 0);
  environment.secret = "";
  environment.job = absl::StrCat(job, "-", getpid());
  environment.discovers_locally = true;
  return environment;
}

void ExpectAllJoin(int size, const std::function<RankEnvironment(int)>& environment,
                   const std::string& interface = "") {
  ForEachRank(size, [&](int rank) {
    const auto rendezvous = Rendezvous::Join(environment(rank), kLong, interface);
    ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
    // All have joined, so each is connected or has left, and none is lost.
    for (int other = 0; other < size; ++other) {
      const auto joined =
          (*rendezvous)->store().Wait(absl::StrCat("rank/", other), milliseconds(0));
      EXPECT_TRUE(joined.ok()) << joined.status();
    }
    const absl::Status left = (*rendezvous)->Leave();
    EXPECT_TRUE(left.ok()) << left;
  });
}

TEST(RendezvousTest, OneRank) {
  ExpectAllJoin(1, [](int rank) { return RankEnvironment(); });
}

TEST(RendezvousTest, RankZerosPortIsBoundAlready) {
  FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  const int fd = listener.Release();
  ExpectAllJoin(4, [&](int rank) { return Launched(rank, 4, port, fd); });
}

TEST(RendezvousTest, RankZerosDescriptorWasClosed) {
  FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  listener.Close();
  ExpectAllJoin(3, [&](int rank) { return Launched(rank, 3, port, 987654); });
}

TEST(RendezvousTest, DiscoversLocally) {
  ExpectAllJoin(4, [&](int rank) { return LocalJob("finds", rank, 4); });
}

TEST(RendezvousTest, DiscoversLocallyAlthoughThePortIsInUse) {
  const FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  ExpectAllJoin(2, [&](int rank) {
    RankEnvironment environment = LocalJob("in use", rank, 2);
    environment.master_port = *PortOf(listener);
    return environment;
  });
}

TEST(RendezvousTest, AcrossHosts) {
  FileDescriptor listener = *ListenOn(Reach::kAnyHost, 0);
  const int port = *PortOf(listener);
  const int fd = listener.Release();
  ExpectAllJoin(2, [&](int rank) {
    RankEnvironment environment = Launched(rank, 2, port, fd);
    environment.one_host = false;
    environment.master_host = "localhost";
    return environment;
  });
}

// Returns a port that is free on all addresses.
int FreePort() { return *PortOf(*ListenOn(Reach::kAnyHost, 0)); }

// Regression: rank 0 listened on all addresses, even with --interface.
TEST(RendezvousTest, RankZeroListensOnItsInterfaceOnly) {
  const int port = FreePort();
  const auto environment = [port](int rank) {
    RankEnvironment environment = Launched(rank, 2, port);
    environment.one_host = false;
    environment.master_host = "127.0.0.3";
    return environment;
  };
  const auto connects = [port](const char* host) {
    return ConnectTo(host, port, std::chrono::steady_clock::now() + kLong).ok();
  };
  std::thread rank_0([&] {
    const auto rendezvous = Rendezvous::Join(environment(0), kLong, "127.0.0.2");
    ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
    EXPECT_TRUE((*rendezvous)->Leave().ok());
  });
  while (!connects("127.0.0.2")) std::this_thread::sleep_for(milliseconds(1));
  while (!connects("127.0.0.3")) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(connects("127.0.0.1"));
  EXPECT_FALSE(connects("127.0.0.4"));
  const auto rendezvous = Rendezvous::Join(environment(1), kLong);
  ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
  EXPECT_FALSE(connects("127.0.0.2"));  // all ranks have joined
  EXPECT_TRUE((*rendezvous)->Leave().ok());
  rank_0.join();
}

TEST(RendezvousTest, AnInterfaceThatIsNotThereIsReportedLater) {
  const int port = FreePort();
  ExpectAllJoin(
      2,
      [port](int rank) {
        RankEnvironment environment = Launched(rank, 2, port);
        environment.one_host = false;
        environment.master_host = "localhost";
        return environment;
      },
      "no-such-interface");
}

TEST(RendezvousTest, APortInUse) {
  const FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  const auto rendezvous = Rendezvous::Join(Launched(0, 2, port), kLong);
  EXPECT_EQ(rendezvous.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(rendezvous.status().message(), HasSubstr(absl::StrCat("port ", port, " is in use")));
}

TEST(RendezvousTest, MissingRanksAreNamedByAll) {
  FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  const int fd = listener.Release();
  ForEachRank(4, [&](int rank) {
    if (rank >= 2) return;
    const auto rendezvous = Rendezvous::Join(Launched(rank, 4, port, fd), seconds(1));
    ASSERT_FALSE(rendezvous.ok());
    EXPECT_THAT(rendezvous.status().message(),
                HasSubstr(absl::StrCat("ranks 2 and 3 of 4 did not join at 127.0.0.1:", port,
                                       " within 1 s")));
  });
}

TEST(RendezvousTest, ALongerTimeoutReportsTheSameError) {
  FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  const int fd = listener.Release();
  ForEachRank(2, [&](int rank) {
    const auto timeout = rank == 0 ? milliseconds(1000) : milliseconds(kLong);
    const auto rendezvous = Rendezvous::Join(Launched(rank, 3, port, fd), timeout);
    ASSERT_FALSE(rendezvous.ok());
    EXPECT_THAT(rendezvous.status().message(), HasSubstr("rank 2 of 3 did not join"));
  });
}

TEST(RendezvousTest, RankZeroIsMissing) {
  FileDescriptor listener = *ListenOn(Reach::kLoopback, 0);
  const int port = *PortOf(listener);
  listener.Close();
  const auto rendezvous = Rendezvous::Join(Launched(1, 2, port), milliseconds(50));
  EXPECT_THAT(rendezvous.status().message(),
              HasSubstr("rank 1 of 2 did not reach rank 0 within 0.05 s"));
  const auto local = Rendezvous::Join(LocalJob("no rank 0", 1, 2), milliseconds(50));
  EXPECT_THAT(local.status().message(), HasSubstr("rank 1 of 2 did not reach rank 0"));
}

TEST(RendezvousTest, ARankThatDiesIsLostToTheOthers) {
  ForEachRank(3, [&](int rank) {
    auto rendezvous = Rendezvous::Join(LocalJob("dies", rank, 3), kLong);
    ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
    if (rank == 1) {
      rendezvous->reset();
      return;
    }
    const auto value = (*rendezvous)->store().Wait("never", kLong);
    EXPECT_THAT(value.status().message(), HasSubstr("rank 1 was lost"));
    EXPECT_TRUE((*rendezvous)->Leave(value.status()).ok());
  });
}

TEST(RendezvousTest, RankZeroDoesNotWaitForARankThatDied) {
  ForEachRank(2, [&](int rank) {
    auto rendezvous = Rendezvous::Join(LocalJob("is gone", rank, 2), kLong);
    ASSERT_TRUE(rendezvous.ok()) << rendezvous.status();
    if (rank == 0) {
      EXPECT_TRUE((*rendezvous)->Leave().ok());
    }
  });
}

TEST(RendezvousTest, FormatsRanks) {
  EXPECT_EQ(FormatRanks({3}), "rank 3");
  EXPECT_EQ(FormatRanks({2, 3}), "ranks 2 and 3");
  EXPECT_EQ(FormatRanks({1, 2, 5}), "ranks 1, 2 and 5");
  EXPECT_THAT(FormatRanks(std::vector<int>(100, 7)), HasSubstr("7 and 84 more"));
}

}  // namespace
}  // namespace tessera::comm
