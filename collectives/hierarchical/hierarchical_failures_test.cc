// Ranks as processes: the errors of the others when one dies or is stopped.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/failures.h"
#include "collectives/testing/hosts.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::hierarchical {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const std::vector<int> kHosts = {0, 0, 1, 1};
constexpr int kRanks = 4;

// Matches a message that names the rank, by its number in the group that waited or in the job.
auto Names(int victim) {
  return AnyOf(HasSubstr(absl::StrCat("(", victim, " of the job, process ")),
               HasSubstr(absl::StrCat("rank ", victim, " (process ")));
}

TEST(HierarchicalProcessesTest, EveryOperation) {
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, kHosts, exchange));
        ConformanceOptions options;
        options.sizes = {0, 1, 1001, 40000};
        options.dtypes = {DType::kF32, DType::kBF16};
        RETURN_IF_ERROR(CheckOperations(*self.world, options));
        ASSIGN_OR_RETURN(options.shared, self.shm_backend->Allocate(*self.host_group, 1 << 21));
        return CheckOperations(*self.world, options);
      });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

void ExpectNoticed(const Use& use, int victim, int signal, double timeout, double at_most,
                   const std::string& what) {
  SCOPED_TRACE(absl::StrCat(use.name, ", rank ", victim));
  const auto results = RunWithVictim(
      use,
      {.ranks = kRanks,
       .victim = victim,
       .signal = signal,
       .at_most_seconds = at_most,
       .until_all_notice_seconds = 1},
      [&](int rank, const Exchange& exchange) -> absl::StatusOr<TestRank> {
        ASSIGN_OR_RETURN(HostedRank hosted, MakeHostedRank(rank, kHosts, exchange, timeout));
        TestRank self;
        self.world = std::move(hosted.world);
        self.backend = std::make_shared<HostedRank>(std::move(hosted));
        return self;
      });
  EXPECT_EQ(results[victim].message(), "signal 9");
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    EXPECT_THAT(std::string(results[rank].message()), AllOf(Names(victim), HasSubstr(what)));
  }
}

TEST(HierarchicalFailuresTest, ADeathIsNoticedInEveryOperation) {
  for (const int victim : {1, 2}) {
    for (const int64_t count : {300, 200000}) {
      for (const Use& use : AllUses(count, kRanks, victim)) {
        ExpectNoticed(use, victim, SIGKILL, 60, 1.5, "died; waiting in ");
      }
    }
  }
}

TEST(HierarchicalFailuresTest, ARankThatStopsIsNoticedAtTheTimeOut) {
  struct Case {
    Use use;
    int victim;
  };
  std::vector<Case> cases;
  for (const Use& use : AllUses(60000, kRanks, /*victim=*/3)) cases.push_back({use, 3});
  cases.push_back({AllUses(60000, kRanks, 0)[0], 0});
  const auto results = RunFourAtATime(static_cast<int>(cases.size()), [&](int i) {
    ExpectNoticed(cases[i].use, cases[i].victim, SIGSTOP, 1, 3, "did not come within 1");
    return ::testing::Test::HasFailure() ? absl::InternalError(cases[i].use.name)
                                         : absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Sends signals at arbitrary points of an operation.
TEST(HierarchicalFailuresTest, ADeathAtAnyPointEndsInItsName) {
  constexpr int kVictim = 3;
  for (const Use& use : AllUses(200000, kRanks, kVictim)) {
    if (use.is_pair) continue;
    SCOPED_TRACE(use.name);
    for (int microseconds = 200; microseconds < 10000; microseconds *= 5) {
      const auto results =
          RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
            ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, kHosts, exchange));
            std::vector<char> data(4 << 20);
            RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
            std::thread killer;
            if (rank == kVictim) {
              killer = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
                kill(getpid(), SIGKILL);
              });
            }
            absl::Status status;
            while (status.ok()) status = self.world->Wait(use.issue(*self.world, data.data()));
            if (killer.joinable()) killer.join();
            return status;
          });
      for (int rank = 0; rank < kVictim; ++rank) {
        EXPECT_THAT(std::string(results[rank].message()),
                    AllOf(Names(kVictim), HasSubstr("died; waiting in ")));
      }
    }
  }
}

// A rank that computes is alive, and its thread would answer for it.
TEST(HierarchicalFailuresTest, ARankThatDoesNotComeIsNamed) {
  constexpr int kLate = 3;
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, kHosts, exchange, 1));
        std::vector<float> data(60000);
        RETURN_IF_ERROR(
            self.world->Wait(self.world->AllReduce(data.data(), data.data(), 60000, DType::kF32)));
        if (rank == kLate) {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          return absl::OkStatus();
        }
        return self.world->Wait(
            self.world->AllReduce(data.data(), data.data(), 60000, DType::kF32));
      });
  for (int rank = 0; rank < kLate; ++rank) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(Names(kLate), HasSubstr("did not come within 1")));
  }
}

// Rank 0 waits for rank 1 of its host, which is late, while a rank of the other host aborts.
// Regression: rank 0 noticed the abort only when rank 1 arrived.
void ExpectPromptAbort(
    const std::function<absl::Status(Communicator& world, float* data)>& wait_for_rank_1,
    const std::function<void(std::unique_ptr<Communicator>& world, float* data)>& abort) {
  constexpr int kLate = 1, kAborts = 3;
  using Clock = std::chrono::steady_clock;
  // Rank 1 arrives after 4 s, or when rank 0 no longer waits.
  auto* const waits_no_more = static_cast<std::atomic<bool>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(waits_no_more, MAP_FAILED);
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(HostedRank self, MakeHostedRank(rank, kHosts, exchange));
        std::vector<float> data(60000);
        RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
        if (rank == kAborts) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          abort(self.world, data.data());
        }
        const Clock::time_point begin = Clock::now();
        absl::Status status;
        if (rank == 0) status = wait_for_rank_1(*self.world, data.data());
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        if (rank == 0) *waits_no_more = true;
        if (rank == kLate) {
          while (!*waits_no_more && Clock::now() < begin + std::chrono::seconds(4)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
          self.world->Abort(absl::InternalError("came late"));
        }
        RETURN_IF_ERROR(exchange("end", "").status());
        if (seconds.count() > 2) {
          return absl::InternalError(
              absl::StrCat("after ", seconds.count(), " s: ", status.message()));
        }
        return status;
      });
  munmap(waits_no_more, 4096);
  EXPECT_THAT(std::string(results[0].message()), AllOf(Names(kAborts), HasSubstr(" aborted: ")));
}

absl::Status WaitForAllReduce(Communicator& world, float* data) {
  return world.Wait(world.AllReduce(data, data, 60000, DType::kF32));
}

void AbortGroup(std::unique_ptr<Communicator>& world, float* /*data*/) {
  world->Abort(absl::InternalError("no memory"));
}

TEST(HierarchicalFailuresTest, AnAbortReachesARankThatWaitsForItsHost) {
  ExpectPromptAbort(WaitForAllReduce, AbortGroup);
}

TEST(HierarchicalFailuresTest, AnAbortReachesARankThatWaitsForAMessageWithinItsHost) {
  ExpectPromptAbort(
      [](Communicator& world, float* data) {
        return world.Wait(world.Receive(data, 60000, DType::kF32, 1));
      },
      AbortGroup);
  ExpectPromptAbort(
      [](Communicator& world, float* data) {
        const Ticket ticket = world.Receive(data, 60000, DType::kF32, 1);
        while (!world.Test(ticket)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return world.Wait(ticket);
      },
      AbortGroup);
}

// Regression: WaitAny noticed the abort only at the time-out.
TEST(HierarchicalFailuresTest, AnAbortReachesARankThatWaitsForAnyOfItsMessages) {
  for (const std::vector<int>& senders : {std::vector<int>{1}, std::vector<int>{1, 2}}) {
    ExpectPromptAbort(
        [&](Communicator& world, float* data) {
          std::vector<PendingOperation> operations;
          for (const int sender : senders) {
            operations.push_back({&world, world.Receive(data, 100, DType::kF32, sender)});
            data += 100;
          }
          return world.Wait(operations[WaitAny(operations)].ticket);
        },
        AbortGroup);
  }
}

TEST(HierarchicalFailuresTest, AGroupThatIsDestroyedInAnOperationReachesARankThatWaitsForItsHost) {
  ExpectPromptAbort(WaitForAllReduce, [](std::unique_ptr<Communicator>& world, float* data) {
    world->AllReduce(data, data, 60000, DType::kF32);
    world.reset();
  });
}

// Makes a group in which each rank requests a different operation.
absl::Status FailAtOnce(int rank, Communicator& world) {
  ASSIGN_OR_RETURN(const auto group, world.Split("group", std::vector<int>(kRanks)));
  int64_t data = 0;
  const absl::Status status =
      group->Wait(group->Broadcast(&data, &data, 1, DType::kI64, /*root=*/rank));
  return absl::StrContains(status.message(), "disagree on operation 1") ? absl::OkStatus() : status;
}

// Regression: a rank that had made the group and failed in it aborted the creation on a slower
// rank.
TEST(HierarchicalFailuresTest, AGroupThatFailsAtOnceHasBeenMadeOnAllRanks) {
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, kHosts, exchange, 20));
        // This thread keeps the cores busy, so that ranks are interrupted at arbitrary points.
        std::atomic<bool> ends = false;
        std::thread busy([&] {
          while (!ends) {
          }
        });
        absl::Status status;
        for (int i = 0; i < 50 && status.ok(); ++i) {
          status = FailAtOnce(rank, *self.world);
        }
        ends = true;
        busy.join();
        return status;
      });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Regression: an abort between the group's last check of submissions and the start of the operation
// on the group's thread was not noticed before the time-out.
TEST(HierarchicalFailuresTest, AGroupIsDestroyedAtAnyPointOfAnOperation) {
  using Clock = std::chrono::steady_clock;
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, kHosts, exchange, 20));
        std::vector<float> data(60000);
        for (int i = 0; i < 300; ++i) {
          ASSIGN_OR_RETURN(auto group, self.world->Split("group", std::vector<int>(kRanks)));
          RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
          const Clock::time_point begin = Clock::now();
          if (rank == 0) {
            group->AllReduce(data.data(), data.data(), 60000, DType::kF32);
            while (Clock::now() < begin + std::chrono::nanoseconds(100 * i)) {
            }
          }
          group.reset();
          const std::chrono::duration<double> seconds = Clock::now() - begin;
          if (seconds.count() > 5) return absl::InternalError(absl::StrCat("round ", i));
        }
        return absl::OkStatus();
      });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace tessera::comm::hierarchical
