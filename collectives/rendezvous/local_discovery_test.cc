#include "collectives/rendezvous/local_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

Deadline In(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

std::string JobName(const char* test) { return absl::StrCat(test, "-", getpid()); }

TEST(LocalDiscoveryTest, SendsPortAndSecret) {
  const std::string job = JobName("sends");
  const auto discovery = OpenLocalDiscovery(job);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  std::thread rank_0([&] {
    pollfd event = {discovery->get(), POLLIN, 0};
    poll(&event, 1, 5000);
    AnswerLocalRanks(*discovery, 4321, "a secret");
  });
  const auto address = DiscoverRankZero(job, In(std::chrono::seconds(5)));
  rank_0.join();
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "127.0.0.1");
  EXPECT_EQ(address->port, 4321);
  EXPECT_EQ(address->secret, "a secret");
}

TEST(LocalDiscoveryTest, RankZeroIsNotThere) {
  const auto address = DiscoverRankZero(JobName("absent"), In(std::chrono::seconds(5)));
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalDiscoveryTest, RankZeroDoesNotAnswer) {
  const std::string job = JobName("silent");
  const auto discovery = OpenLocalDiscovery(job);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  const auto address = DiscoverRankZero(job, In(std::chrono::milliseconds(50)));
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalDiscoveryTest, OneJobAtATimeAndTheNameIsFreeAfterwards) {
  const std::string job = JobName("twice");
  {
    const auto discovery = OpenLocalDiscovery(job);
    ASSERT_TRUE(discovery.ok()) << discovery.status();
    const auto second = OpenLocalDiscovery(job);
    ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(second.status().message(), HasSubstr(job));
  }
  EXPECT_TRUE(OpenLocalDiscovery(job).ok());
}

}  // namespace
}  // namespace tessera::comm
