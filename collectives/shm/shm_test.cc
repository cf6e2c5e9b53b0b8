// Ranks as threads: values of every operation, groups, errors.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/fake/fake.h"
#include "collectives/shm/backend.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/disturbed.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kArena = 4 << 20;

// A rank's world, and memory that it shares.
struct Rank {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> world;
  char* arena = nullptr;
};

absl::StatusOr<Rank> MakeRank(int rank, int ranks, const Exchange& exchange,
                              const BackendOptions& options = {}) {
  Rank result;
  ASSIGN_OR_RETURN(result.backend, Backend::Create(rank, ranks, exchange, options));
  ASSIGN_OR_RETURN(result.world, result.backend->World());
  ASSIGN_OR_RETURN(result.arena, result.backend->Allocate(*result.world, kArena));
  return result;
}

void ExpectOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

class ShmTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmTest, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(ShmTest, EveryOperationInSharedMemory) {
  const int ranks = GetParam();
  ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
    ConformanceOptions options;
    options.shared = self.arena;
    return CheckOperations(*self.world, options);
  }));
}

TEST_P(ShmTest, EveryOperationInOtherMemory) {
  const int ranks = GetParam();
  ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
    ConformanceOptions options;
    // Several rounds through the staging area, the last one short.
    options.large_sizes.push_back(200001);
    return CheckOperations(*self.world, options);
  }));
}

// Only some ranks have their buffers in shared memory.
TEST_P(ShmTest, EveryOperationInMemoryOfBothKinds) {
  const int ranks = GetParam();
  ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
    ConformanceOptions options;
    options.dtypes = {DType::kF32, DType::kI64};
    if (rank % 2 == 1) options.shared = self.arena;
    return CheckOperations(*self.world, options);
  }));
}

TEST(ShmGroupsTest, ARankWithANegativeColorIsInNoGroup) {
  ExpectOk(RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
    ASSIGN_OR_RETURN(auto group, self.world->Split("pair", {0, -1, 0}));
    if ((group == nullptr) != (rank == 1)) return absl::InternalError("another group");
    return group == nullptr ? absl::OkStatus() : group->Wait(group->Barrier());
  }));
}

TEST(ShmProgressTest, OperationsGoOnWhenTheirRankDoesNotWait) {
  std::atomic<int> ended = 0;
  ExpectOk(RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
    return CheckUnwaitedOperations(*self.world, &ended);
  }));
}

TEST(ShmErrorsTest, RanksThatDisagreeGetAllRequests) {
  const auto results = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
    float data[4] = {};
    absl::Status status =
        rank == 1 ? self.world->Wait(self.world->AllReduce(data, data, 4, DType::kF32))
                  : self.world->Wait(self.world->Broadcast(data, data, 4, DType::kF32, 0));
    // The group stays broken.
    if (status.ok() || self.world->Wait(self.world->Barrier()).ok()) {
      return absl::InternalError("it went on");
    }
    return status;
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the ranks of group 'world' disagree on operation "),
                      HasSubstr("rank 0 requests broadcast of 4 f32 from rank 0, rank 1 requests "
                                "all-reduce of 4 f32 (sum), rank 2 requests broadcast")));
  }
}

TEST(ShmErrorsTest, AnInvalidRequestIsReportedOnAllRanks) {
  const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
    float data[8] = {};
    return self.world->Wait(
        self.world->AllReduce(data, rank == 1 ? data + 1 : data, 4, DType::kF32));
  });
  EXPECT_EQ(results[1].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(results[0].message()),
              AllOf(HasSubstr("rank 1 (process "), HasSubstr("aborted: all-reduce of 4 f32 (sum): "
                                                             "the input and the output overlap")));
}

TEST(ShmErrorsTest, NobodyWaitsLongerThanTheTimeOut) {
  const auto results = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    BackendOptions options;
    options.timeout_seconds = 0.3;
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange, options));
    if (rank == 2) return absl::OkStatus();  // and issues nothing
    return self.world->Wait(self.world->Barrier());
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(std::string(results[rank].message()), HasSubstr("rank 2 (process "));
  }
}

TEST(ShmErrorsTest, AFaultCanBeInjected) {
  const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(Rank self, MakeRank(rank, 2, exchange));
    if (rank == 1) self.world = WithFault(std::move(self.world), {.operation = 3, .fails = true});
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    return self.world->Wait(self.world->Barrier());
  });
  EXPECT_EQ(results[1].message(), "barrier: injected fault");
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("aborted: barrier: injected fault"));
}

// The formulas for bytes in docs/collectives.md.
TEST(ShmTrafficTest, BytesAreThoseOfTheFormulas) {
  for (const int ranks : {2, 3, 5}) {
    ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
      Communicator& world = *self.world;
      const auto sent = [&](Operation operation) {
        return world.traffic()[static_cast<size_t>(operation)].bytes_sent;
      };
      const auto expect = [&](Operation operation, int64_t before, int64_t elements) {
        EXPECT_EQ(sent(operation) - before, elements * 4) << OperationName(operation);
      };
      char* const data = self.arena;
      char* const other = self.arena + (1 << 20);
      for (const int64_t count : {0, 7, 4096, 4097, 100001}) {
        const int64_t part = (count + ranks - 1) / ranks;
        const int64_t own = PartOf(count, part, rank).size;
        const int64_t peers = ranks - 1;
        int64_t before = sent(Operation::kAllReduce);
        RETURN_IF_ERROR(world.Wait(world.AllReduce(data, data, count, DType::kF32)));
        const int64_t share = PartOf(count, (part + 63) / 64 * 64, rank).size;
        expect(Operation::kAllReduce, before,
               count <= 4096 ? count * peers : count - share + share * peers);
        before = sent(Operation::kReduceScatter);
        RETURN_IF_ERROR(world.Wait(world.ReduceScatter(data, other, count, part, DType::kF32)));
        expect(Operation::kReduceScatter, before, count - own);
        before = sent(Operation::kAllGather);
        RETURN_IF_ERROR(world.Wait(world.AllGather(data, other, count, part, DType::kF32)));
        expect(Operation::kAllGather, before, own * peers);
        before = sent(Operation::kAllToAll);
        RETURN_IF_ERROR(world.Wait(world.AllToAll(data, other, part, DType::kF32)));
        expect(Operation::kAllToAll, before, part * peers);
        before = sent(Operation::kBroadcast);
        RETURN_IF_ERROR(world.Wait(world.Broadcast(data, data, count, DType::kF32, 1)));
        expect(Operation::kBroadcast, before, rank == 1 ? count * peers : 0);
        before = sent(Operation::kSend);
        const Ticket send = world.Send(data, count, DType::kF32, (rank + 1) % ranks);
        const int from = (rank + ranks - 1) % ranks;
        RETURN_IF_ERROR(world.Wait(world.Receive(other, count, DType::kF32, from)));
        RETURN_IF_ERROR(world.Wait(send));
        expect(Operation::kSend, before, count);
      }
      return absl::OkStatus();
    }));
  }
}

TEST(ShmErrorsTest, MemoryThatIsNotThereIsAnErrorOnAllRanks) {
  const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
    const auto memory = self.backend->Allocate(*self.world, rank == 1 ? int64_t{1} << 55 : 4096);
    // The group is still usable.
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    return memory.status();
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: "));
  }
}

// Regression: every rank that arrived woke all that had arrived before.
TEST(ShmWakeTest, ARankSleepsUntilTheLastOneArrives) {
  constexpr int kRanks = 12;
  constexpr auto kBetweenArrivals = std::chrono::milliseconds(4);
  const auto sleeps = [] {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  std::atomic<int64_t> of_first = 0;
  ExpectOk(RunThreads(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, kRanks, exchange));
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    std::this_thread::sleep_for(rank * kBetweenArrivals);
    const int64_t before = sleeps();
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    if (rank == 0) of_first = sleeps() - before;
    return absl::OkStatus();
  }));
  EXPECT_LE(of_first.load(), kRanks / 3);
}

}  // namespace
}  // namespace tessera::comm::shm
