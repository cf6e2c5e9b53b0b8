// Ranks as processes: values again, and the errors of the others when one dies or is stopped.
#include <signal.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "collectives/shm/backend.h"
#include "collectives/shm/group.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/failures.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kVictim = 1;

TEST(ShmProcessesTest, EveryOperation) {
  for (const int ranks : {2, 3}) {
    const auto results =
        RunProcesses(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
          ASSIGN_OR_RETURN(const auto backend, Backend::Create(rank, ranks, exchange, {}));
          ASSIGN_OR_RETURN(const auto world, backend->World());
          ConformanceOptions options;
          options.sizes = {0, 1, 1001};
          RETURN_IF_ERROR(CheckOperations(*world, options));
          ASSIGN_OR_RETURN(options.shared, backend->Allocate(*world, 1 << 21));
          return CheckOperations(*world, options);
        });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

// Expects that the other ranks report the failure, with `what`, within `at_most` seconds.
void ExpectNoticed(const Use& use, bool shared, int signal, double timeout, double at_most,
                   const std::string& what) {
  SCOPED_TRACE(absl::StrCat(use.name, shared ? " in shared memory" : ""));
  const auto results = RunWithVictim(
      use, {.ranks = kRanks, .victim = kVictim, .signal = signal, .at_most_seconds = at_most},
      [&](int rank, const Exchange& exchange) -> absl::StatusOr<TestRank> {
        BackendOptions options;
        options.timeout_seconds = timeout;
        ASSIGN_OR_RETURN(std::shared_ptr<Backend> backend,
                         Backend::Create(rank, kRanks, exchange, options));
        TestRank self;
        ASSIGN_OR_RETURN(self.world, backend->World());
        if (shared) {
          ASSIGN_OR_RETURN(self.data, backend->Allocate(*self.world, 4 << 20));
        }
        self.backend = backend;
        return self;
      });
  EXPECT_EQ(results[kVictim].message(), "signal 9");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 1 (process "), HasSubstr(what)));
  }
}

TEST(ShmFailuresTest, ADeathIsNoticedInEveryOperation) {
  for (const int64_t count : {300, 60000}) {
    for (const Use& use : AllUses(count, kRanks, kVictim)) {
      for (const bool shared : {false, true}) {
        ExpectNoticed(use, shared, SIGKILL, 60, 1.0, "died; waiting in ");
      }
    }
  }
}

TEST(ShmFailuresTest, ARankThatStopsIsNoticedAtTheTimeOut) {
  for (const Use& use : AllUses(60000, kRanks, kVictim)) {
    ExpectNoticed(use, true, SIGSTOP, 0.5, 1.5,
                  "did not come within 0.5 s, because the process is stopped; waiting in ");
  }
}

// Regression: a rank that had left was reported as one that died.
TEST(ShmFailuresTest, ARankThatHasLeftIsReportedAsSuch) {
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(const auto backend, Backend::Create(rank, kRanks, exchange, {}));
        ASSIGN_OR_RETURN(const auto world, backend->World());
        RETURN_IF_ERROR(world->Wait(world->Barrier()));
        return rank == kVictim ? absl::OkStatus() : world->Wait(world->Barrier());
      });
  EXPECT_TRUE(results[kVictim].ok()) << results[kVictim];
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 1 (process "), HasSubstr("has left; waiting in barrier")));
  }
}

// Regression: a rank that was stopped in the middle of an operation, and continued after the others
// had failed and changed their buffers, read those buffers and returned no error. Here rank 1 has
// no thread and calls Test, so that it stops after as many steps as the test wants.
TEST(ShmFailuresTest, ARankThatReadsAFailedRanksBufferGetsAnError) {
  constexpr int64_t kPart = 1 << 18, kCount = 2 * kPart;
  const Request requests[] = {
      {.operation = Operation::kAllGather, .count = kCount, .part = kPart},
      {.operation = Operation::kReduceScatter, .count = kCount, .part = kPart},
      {.operation = Operation::kAllToAll, .count = kCount, .part = kPart},
      {.operation = Operation::kBroadcast, .peer = 0, .count = kCount},
      {.operation = Operation::kAllReduce, .count = kCount},
  };
  for (const Request& each : requests) {
    SCOPED_TRACE(Describe(each));
    const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const auto memory, SharedMemory::Create(rank, exchange, {}));
      ASSIGN_OR_RETURN(auto members,
                       SharedMemory::Share(Member::SegmentBytes(2), exchange, "members"));
      ASSIGN_OR_RETURN(char* const input, memory->Allocate(kCount * 4, exchange));
      ASSIGN_OR_RETURN(char* const output, memory->Allocate(kCount * 4, exchange));
      ProgressEngine engine(memory.get(), {.has_thread = false});
      Group group(memory.get(), &engine, "world", rank, {0, 1}, std::move(members), 0.3);
      Request request = each;
      request.input = input;
      request.output = output;
      const Ticket ticket = group.Issue(request);
      RETURN_IF_ERROR(exchange("issued", "").status());
      if (rank == 1) {
        for (int step = 0; step < 3; ++step) group.Test(ticket);  // post, agree, read a piece
      }
      RETURN_IF_ERROR(exchange("begun", "").status());
      if (rank == 1) {
        RETURN_IF_ERROR(exchange("changed", "").status());
        return group.Wait(ticket);
      }
      absl::Status status = group.Wait(ticket);
      std::memset(input, 7, kCount * 4);
      RETURN_IF_ERROR(exchange("changed", "").status());
      return status;
    });
    EXPECT_THAT(std::string(results[0].message()), HasSubstr("did not come within 0.3 s"));
    EXPECT_THAT(std::string(results[1].message()), HasSubstr("aborted: "));
  }
}

}  // namespace
}  // namespace tessera::comm::shm
