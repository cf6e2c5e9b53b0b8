#include "collectives/rendezvous/local_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "collectives/net/owners.h"
#include "collectives/net/proof.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline DeadlineIn(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

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
  const auto address = DiscoverRankZero(job, DeadlineIn(std::chrono::seconds(5)));
  rank_0.join();
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "127.0.0.1");
  EXPECT_EQ(address->port, 4321);
  EXPECT_EQ(address->secret, "a secret");
}

TEST(LocalDiscoveryTest, RankZeroIsNotThere) {
  const auto address = DiscoverRankZero(JobName("absent"), DeadlineIn(std::chrono::seconds(5)));
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalDiscoveryTest, RankZeroDoesNotAnswer) {
  const std::string job = JobName("silent");
  const auto discovery = OpenLocalDiscovery(job);
  ASSERT_TRUE(discovery.ok()) << discovery.status();
  const auto address = DiscoverRankZero(job, DeadlineIn(std::chrono::milliseconds(50)));
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
}

// Binds the name of a job of this user as another user, in a child process, until it is destroyed.
class Squatter {
 public:
  Squatter(const std::string& job, bool listens) {
    const std::string name = absl::StrCat("tessera/", getuid(), "/", DigestOf(job));
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) {
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
      const bool is_bound =
          setuid(kUser) == 0 &&
          bind(socket, reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0 &&
          (!listens || listen(socket, 8) == 0);
      (void)!write(ready[1], is_bound ? "y" : "n", 1);
      pause();
      _exit(0);
    }
    char answer = 0;
    EXPECT_EQ(read(ready[0], &answer, 1), 1);
    is_there_ = answer == 'y';
    close(ready[0]);
    close(ready[1]);
  }
  ~Squatter() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Squatter(const Squatter&) = delete;
  Squatter& operator=(const Squatter&) = delete;

  static constexpr uid_t kUser = 65534;

  // False if this process may not start one as another user.
  bool is_there() const { return is_there_; }

 private:
  pid_t child_ = -1;
  bool is_there_ = false;
};

// Regression: rank 0 reported that another rank 0 of the job was running.
TEST(LocalDiscoveryTest, AnotherUserWhoHoldsTheNameIsNamed) {
  const std::string job = JobName("squatted");
  {
    const Squatter squatter(job, /*listens=*/true);
    if (!squatter.is_there()) GTEST_SKIP() << "needs root, to run a program of another user";
    for (const absl::Status& status :
         {OpenLocalDiscovery(job).status(),
          DiscoverRankZero(job, DeadlineIn(std::chrono::seconds(5))).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(absl::StrCat(FormatUser(Squatter::kUser), " holds the name")),
                        HasSubstr(job), HasSubstr("set TESSERA_SECRET"),
                        HasSubstr("--rendezvous=127.0.0.1:PORT")));
    }
  }
  const Squatter squatter(job, /*listens=*/false);
  EXPECT_THAT(OpenLocalDiscovery(job).status().message(),
              HasSubstr("a program that does not listen holds the name"));
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
