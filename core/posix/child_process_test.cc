#include "core/posix/child_process.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

using Body = std::function<void(ChildProcess::Parent& parent)>;

// The bytes that a child sent, and how it ended.
struct Outcome {
  std::vector<std::string> messages;
  std::string end;
};

Outcome RunChild(const Body& body) {
  auto child = ChildProcess::Start(body);
  EXPECT_TRUE(child.ok()) << child.status();
  Outcome outcome;
  ChildProcess::Message message;
  const auto until = ChildProcess::Clock::now() + std::chrono::seconds(60);
  while ((*child)->Receive(until, &message) == ChildProcess::Event::kMessage) {
    outcome.messages.push_back(std::string(1, message.kind) + message.bytes);
  }
  EXPECT_LT(ChildProcess::Clock::now(), until);
  outcome.end = (*child)->End();
  return outcome;
}

TEST(ChildProcessTest, MessagesArriveInOrderAndComplete) {
  const std::string large(10'000'000, 'x');
  const Outcome outcome = RunChild([&](ChildProcess::Parent& parent) {
    parent.Send('a', "");
    for (int i = 0; i < 1000; ++i) parent.Send('n', std::to_string(i));
    parent.Send('l', large);
  });
  EXPECT_EQ(outcome.end, "exit code 0");
  ASSERT_EQ(outcome.messages.size(), 1002u);
  EXPECT_EQ(outcome.messages[0], "a");
  EXPECT_EQ(outcome.messages[1000], "n999");
  EXPECT_EQ(outcome.messages[1001], "l" + large);
}

TEST(ChildProcessTest, ThreadsOfTheChildSendWholeMessages) {
  const Outcome outcome = RunChild([&](ChildProcess::Parent& parent) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 50; ++j) parent.Send('t', std::string(5000, 'y'));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_THAT(outcome.messages, testing::SizeIs(200));
  EXPECT_THAT(outcome.messages, testing::Each("t" + std::string(5000, 'y')));
}

TEST(ChildProcessTest, ItSaysHowTheProcessEnded) {
  const auto after_a_message = [](const std::function<void()>& end) {
    return RunChild([&](ChildProcess::Parent& parent) {
      parent.Send('m', "");
      end();
    });
  };
  const Outcome aborted = after_a_message([] { std::abort(); });
  EXPECT_THAT(aborted.messages, ElementsAre("m"));
  EXPECT_EQ(aborted.end, "signal 6 (Aborted)");
  const Outcome killed = after_a_message([] { raise(SIGKILL); });
  EXPECT_THAT(killed.messages, ElementsAre("m"));
  EXPECT_EQ(killed.end, "signal 9 (Killed)");
  EXPECT_EQ(after_a_message([] { exit(0); }).end, "exit code 0");
  EXPECT_EQ(after_a_message([] { exit(3); }).end, "exit code 3");
  EXPECT_EQ(after_a_message([] { _exit(4); }).end, "exit code 4");
}

TEST(ChildProcessTest, AProcessThatGoesOnIsStopped) {
  auto child = ChildProcess::Start([](ChildProcess::Parent& parent) {
    while (!parent.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    parent.Send('s', "");
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  });
  ASSERT_TRUE(child.ok()) << child.status();
  ChildProcess::Message message;
  const auto after = [](int milliseconds) {
    return ChildProcess::Clock::now() + std::chrono::milliseconds(milliseconds);
  };
  EXPECT_EQ((*child)->Receive(after(20), &message), ChildProcess::Event::kTimeOut);
  (*child)->RequestStop();
  EXPECT_EQ((*child)->Receive(after(60'000), &message), ChildProcess::Event::kMessage);
  EXPECT_EQ(message.kind, 's');
  EXPECT_EQ((*child)->Receive(after(20), &message), ChildProcess::Event::kTimeOut);
  EXPECT_EQ((*child)->End(), "signal 9 (Killed)");
}

// A process that the child has started keeps the pipe open.
TEST(ChildProcessTest, AGrandchildDoesNotDelayTheEnd) {
  pid_t grandchild = 0;
  const Outcome outcome = RunChild([&](ChildProcess::Parent& parent) {
    grandchild = fork();
    if (grandchild == 0) {
      sleep(60);
      _exit(0);
    }
    parent.Send('g', std::to_string(grandchild));
  });
  EXPECT_EQ(outcome.end, "exit code 0");
  ASSERT_THAT(outcome.messages, ElementsAre(StartsWith("g")));
  kill(std::stoi(outcome.messages[0].substr(1)), SIGKILL);
}

TEST(ChildProcessTest, ItEndsWithTheThreadThatStartedIt) {
  const auto until = ChildProcess::Clock::now() + std::chrono::seconds(60);
  ChildProcess::Message message;
  std::unique_ptr<ChildProcess> child;  // outlives the thread, so that only its end ends the child
  std::thread starter([&] {
    auto started = ChildProcess::Start([](ChildProcess::Parent& parent) {
      parent.Send('s', "");
      while (true) sleep(1);
    });
    ASSERT_TRUE(started.ok()) << started.status();
    child = *std::move(started);
    EXPECT_EQ(child->Receive(until, &message), ChildProcess::Event::kMessage);
  });
  starter.join();
  ASSERT_NE(child, nullptr);
  ASSERT_EQ(child->Receive(until, &message), ChildProcess::Event::kEnd);
  EXPECT_EQ(child->End(), "signal 9 (Killed)");
}

}  // namespace
}  // namespace tessera
