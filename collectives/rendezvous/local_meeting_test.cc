#include "collectives/rendezvous/local_meeting.h"

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

TEST(LocalMeetingTest, TellsPortAndSecret) {
  const std::string job = JobName("tells");
  const auto meeting = OpenLocalMeeting(job);
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  std::thread rank_0([&] {
    pollfd event = {meeting->get(), POLLIN, 0};
    poll(&event, 1, 5000);
    AnswerLocalMeeting(*meeting, {4321, "a secret"});
  });
  const auto address = AskLocalMeeting(job, In(std::chrono::seconds(5)));
  rank_0.join();
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->port, 4321);
  EXPECT_EQ(address->secret, "a secret");
}

TEST(LocalMeetingTest, NobodyIsThere) {
  const auto address = AskLocalMeeting(JobName("nobody"), In(std::chrono::seconds(5)));
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalMeetingTest, RankZeroDoesNotAnswer) {
  const std::string job = JobName("silent");
  const auto meeting = OpenLocalMeeting(job);
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  const auto address = AskLocalMeeting(job, In(std::chrono::milliseconds(50)));
  EXPECT_EQ(address.status().code(), absl::StatusCode::kUnavailable);
}

TEST(LocalMeetingTest, OneJobAtATimeAndTheNameIsFreeAfterwards) {
  const std::string job = JobName("twice");
  {
    const auto meeting = OpenLocalMeeting(job);
    ASSERT_TRUE(meeting.ok()) << meeting.status();
    const auto second = OpenLocalMeeting(job);
    ASSERT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(second.status().message(), HasSubstr(job));
  }
  EXPECT_TRUE(OpenLocalMeeting(job).ok());
}

}  // namespace
}  // namespace tessera::comm
