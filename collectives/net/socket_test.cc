#include "collectives/net/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

Deadline Soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(5); }

FileDescriptor Listen(Reach reach) {
  auto listener = ListenOn(reach, 0);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

TEST(SocketTest, ConnectsAndAccepts) {
  for (const Reach reach : {Reach::kLoopback, Reach::kAnyHost}) {
    const FileDescriptor listener = Listen(reach);
    EXPECT_FALSE(AcceptFrom(listener)->is_open());
    const auto connection = ConnectTo("127.0.0.1", *PortOf(listener), Soon());
    ASSERT_TRUE(connection.ok()) << connection.status();
    pollfd event = {listener.get(), POLLIN, 0};
    ASSERT_EQ(poll(&event, 1, 5000), 1);
    EXPECT_TRUE(AcceptFrom(listener)->is_open());
  }
}

TEST(SocketTest, LoopbackListensOnNoOtherAddress) {
  const FileDescriptor listener = Listen(Reach::kLoopback);
  sockaddr_in address = {};
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  EXPECT_EQ(address.sin_family, AF_INET);
  EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
}

TEST(SocketTest, APortInUse) {
  for (const Reach reach : {Reach::kLoopback, Reach::kAnyHost}) {
    const FileDescriptor listener = Listen(reach);
    const auto second = ListenOn(reach, *PortOf(listener));
    ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(second.status().message(), HasSubstr("is in use"));
  }
}

TEST(SocketTest, NobodyListens) {
  int port = 0;
  {
    const FileDescriptor listener = Listen(Reach::kLoopback);
    port = *PortOf(listener);
  }
  const auto connection = ConnectTo("127.0.0.1", port, Soon());
  EXPECT_EQ(connection.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(connection.status().message(), HasSubstr("Connection refused"));
  EXPECT_EQ(ConnectTo("no such host", 1, Soon()).status().code(), absl::StatusCode::kNotFound);
}

TEST(SocketTest, AdoptsAListener) {
  FileDescriptor listener = Listen(Reach::kLoopback);
  const int port = *PortOf(listener);
  const int inherited = dup(listener.get());
  listener.Close();
  const auto adopted = AdoptListener(inherited);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(*PortOf(*adopted), port);
  EXPECT_EQ(fcntl(inherited, F_GETFD), FD_CLOEXEC);

  EXPECT_EQ(AdoptListener(987654).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(AdoptListener(STDERR_FILENO).status().code(), absl::StatusCode::kInvalidArgument);
  const auto connection = ConnectTo("127.0.0.1", port, Soon());
  EXPECT_EQ(AdoptListener(connection->get()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SocketTest, Addresses) {
  EXPECT_EQ(FormatAddress("node1", 29500), "node1:29500");
  EXPECT_EQ(FormatAddress("fe80::1", 29500), "[fe80::1]:29500");
}

// Regression: without /etc/hosts, "localhost" was looked for by a name server for 30 s. No name
// server knows names below it.
TEST(SocketTest, LocalhostNeedsNoNameService) {
  for (const char* name : {"localhost", "rank.localhost", "LOCALHOST."}) {
    const auto addresses = ResolveHost(name, 29500);
    ASSERT_TRUE(addresses.ok()) << addresses.status();
    EXPECT_EQ(addresses->back().text(), "127.0.0.1:29500");
  }
  EXPECT_FALSE(IsLocalhost("notlocalhost"));
}

TEST(SocketTest, Timeouts) {
  EXPECT_EQ(FormatTimeout(std::chrono::seconds(60)), "60 s");
  EXPECT_EQ(FormatTimeout(std::chrono::milliseconds(250)), "0.25 s");
  EXPECT_EQ(MillisecondsUntil(Deadline::min()), 0);
  EXPECT_GT(MillisecondsUntil(Deadline::max()), 1'000'000);
}

}  // namespace
}  // namespace tessera::comm
