// Several threads that issue, test and wait on one engine, in orders that real backends reach only
// by chance: the test stops a thread in the middle of a step.
#include "collectives/queue/progress_engine.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/queue/queued_group.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

// Returns whether `condition` becomes true within a time that only a defect exceeds.
bool Await(const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return condition();
}

// A place in a group's step where the threads that choose it stop, once, until Release.
class Stop {
 public:
  void Pass() {
    if (is_reached_.exchange(true)) return;
    EXPECT_TRUE(Await([this] { return is_released_.load(); }));
  }
  bool IsReached() {
    return Await([this] { return is_reached_.load(); });
  }
  void Release() { is_released_ = true; }

 private:
  std::atomic<bool> is_reached_ = false, is_released_ = false;
};
thread_local Stop* stop_in_advance = nullptr;
thread_local Stop* stop_in_check = nullptr;

// Sleeps until Wake, however short the engine asks for: a missed wake-up does not go unnoticed.
class SleepsUntilWoken : public NoEvents {
 public:
  void CommitWait(std::chrono::nanoseconds at_most) override {
    is_asleep_ = true;
    NoEvents::CommitWait(at_most + std::chrono::seconds(20));
    is_asleep_ = false;
  }
  bool IsAsleep() const { return is_asleep_; }

 private:
  std::atomic<bool> is_asleep_ = false;
};

// A group of two ranks whose operations take a number of steps, each of which the test allows.
class SteppedGroup : public QueuedGroup {
 public:
  // Small operations need no thread, as those of a backend whose peers can see them.
  SteppedGroup(ProgressEngine* engine, std::string name, bool is_small, int steps)
      : QueuedGroup(engine, std::move(name), 0, 2, 60), is_small_(is_small), steps_(steps) {
    engine->Add(this);
  }
  ~SteppedGroup() override { Leave(); }

  void Allow(int steps) { allowed_ += steps; }
  // The peer takes its last steps and leaves when this rank next looks whether it is there.
  void PeerLeaves() { peer_leaves_ = true; }
  // The same of a peer that fails instead, which this rank does not see before it looks.
  void PeerFailsAndLeaves() { peer_fails_ = true; }

  bool AdvanceFirst(int channel) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (stop_in_advance != nullptr) stop_in_advance->Pass();
    if (allowed_ == 0) return false;
    --allowed_;
    if (++position_ == steps_) {
      position_ = 0;
      Complete(channel);
    }
    return true;
  }
  void Check(Time now) override {
    if (stop_in_check != nullptr) stop_in_check->Pass();
    QueuedGroup::Check(now);
  }
  bool IsSmall(const Request& /*request*/) const override { return is_small_; }
  int WaitsFor(int /*channel*/, int /*rank*/) const override { return 1; }
  void CheckFailures() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (peer_has_failed_) Fail(absl::AbortedError("rank 1 aborted: why"), /*is_first=*/false);
  }
  absl::optional<Departure> DepartureOf(int /*rank*/) const override {
    if (peer_fails_) {
      peer_has_failed_ = true;
      return Departure{"has left", ""};
    }
    if (!peer_leaves_) return absl::nullopt;
    allowed_ = steps_;
    return Departure{"died", ""};
  }
  void OnFailure(const absl::Status& /*why*/, bool /*is_first*/) override {}
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view /*name*/,
                                                          absl::Span<const int> /*colors*/,
                                                          Contents /*contents*/) override {
    return absl::UnimplementedError("a test does not split it");
  }

 private:
  const bool is_small_;
  const int steps_;
  mutable std::atomic<int> allowed_ = 0;
  mutable std::atomic<bool> peer_has_failed_ = false;
  std::atomic<bool> peer_leaves_ = false, peer_fails_ = false;
  int position_ = 0;
};

// An engine on which an operation of `waiting` waits for its peer, and those of `other` need three
// steps and no peer.
struct TwoGroups {
  explicit TwoGroups(bool waiting_is_small) : waiting(&engine, "waiting", waiting_is_small, 1) {
    other.Allow(3);
  }
  // Runs `work` on a thread, stops it in a step, and issues an operation of `other` meanwhile.
  // Returns the operation's ticket when `work` has returned.
  Ticket IssueDuring(const std::function<void()>& work) {
    Stop stop;
    std::thread thread([&] {
      stop_in_advance = &stop;
      work();
    });
    EXPECT_TRUE(stop.IsReached());
    const Ticket ticket = other.Barrier();
    stop.Release();
    thread.join();
    return ticket;
  }

  SleepsUntilWoken events;
  ProgressEngine engine = {&events, {.spins = false}};
  SteppedGroup waiting;
  SteppedGroup other = {&engine, "other", /*is_small=*/false, 3};
};

// Regression: Issue waited for the mutex of the thread that advances operations, or that finds that
// a group has failed.
TEST(ProgressEngineTest, IssueReturnsWhileAnotherThreadIsInAStep) {
  for (Stop** const place : {&stop_in_advance, &stop_in_check}) {
    const bool in_check = place == &stop_in_check;
    SCOPED_TRACE(in_check ? "in Check" : "in Advance");
    TwoGroups setup(/*waiting_is_small=*/true);
    const Ticket first = setup.waiting.Barrier();
    Stop stop;
    std::thread tester([&] {
      (in_check ? stop_in_check : stop_in_advance) = &stop;
      setup.waiting.Test(first);
    });
    ASSERT_TRUE(stop.IsReached());
    std::atomic<bool> is_issued = false;
    std::thread issuer([&] {
      setup.other.Barrier();
      is_issued = true;
    });
    EXPECT_TRUE(Await([&] { return is_issued.load(); }));
    stop.Release();
    tester.join();
    issuer.join();
  }
}

// Regression: Test took the operation that another thread had issued meanwhile, and then nobody
// advanced it until somebody waited.
TEST(ProgressEngineTest, AnOperationThatTestTookIsFinishedByTheThread) {
  TwoGroups setup(/*waiting_is_small=*/true);
  const Ticket first = setup.waiting.Barrier();
  const Ticket second = setup.IssueDuring([&] { setup.waiting.Test(first); });
  EXPECT_TRUE(Await([&] { return setup.other.HasEnded(second); }));
}

// Regression: the same, beside a thread that sleeps in Wait.
TEST(ProgressEngineTest, AnOperationThatTestTookIsFinishedByTheThreadThatWaits) {
  TwoGroups setup(/*waiting_is_small=*/true);
  const Ticket first = setup.waiting.Barrier();
  std::thread waiter([&] { EXPECT_TRUE(setup.waiting.Wait(first).ok()); });
  ASSERT_TRUE(Await([&] { return setup.events.IsAsleep(); }));
  const Ticket second = setup.IssueDuring([&] { setup.waiting.Test(first); });
  EXPECT_TRUE(Await([&] { return setup.other.HasEnded(second); }));
  setup.waiting.Allow(1);
  setup.waiting.Test(first);
  waiter.join();
}

// Regression: a thread that left Wait did not wake the one that sleeps, which is another caller or
// the engine's own thread.
TEST(ProgressEngineTest, AnOperationThatAWaitTookIsFinishedByTheThreadThatSleeps) {
  for (const bool caller_sleeps : {true, false}) {
    SCOPED_TRACE(caller_sleeps ? "a caller sleeps" : "the engine's thread sleeps");
    TwoGroups setup(/*waiting_is_small=*/caller_sleeps);
    const Ticket first = setup.waiting.Barrier();
    std::thread sleeper([&] {
      if (caller_sleeps) {
        EXPECT_TRUE(setup.waiting.Wait(first).ok());
      }
    });
    ASSERT_TRUE(Await([&] { return setup.events.IsAsleep(); }));
    std::atomic<int> asked = 0;
    // Works once: it is over when it asks again.
    const auto wait = [&] { setup.engine.WaitUntil([&] { return asked++ > 0; }); };
    const Ticket second = setup.IssueDuring(wait);
    EXPECT_TRUE(Await([&] { return setup.other.HasEnded(second); }));
    setup.waiting.Allow(1);
    setup.waiting.Test(first);
    sleeper.join();
  }
}

// Regression: "died" was reported for a rank that had done its part and then left.
TEST(ProgressEngineTest, ARankThatDidItsPartAndLeftIsNotReported) {
  TwoGroups setup(/*waiting_is_small=*/true);
  const Ticket ticket = setup.waiting.Barrier();
  setup.waiting.PeerLeaves();
  const absl::Status status = setup.waiting.Wait(ticket);
  EXPECT_TRUE(status.ok()) << status;
}

// Regression: "has left" was reported for a rank that failed and left after this rank had looked
// for failures.
TEST(ProgressEngineTest, ARankThatFailedAndLeftIsReportedAsFailed) {
  TwoGroups setup(/*waiting_is_small=*/true);
  const Ticket ticket = setup.waiting.Barrier();
  setup.waiting.PeerFailsAndLeaves();
  EXPECT_EQ(setup.waiting.Wait(ticket), absl::AbortedError("rank 1 aborted: why"));
}

}  // namespace
}  // namespace tessera::comm
