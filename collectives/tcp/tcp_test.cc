// Ranks as threads: values of every operation, bytes, groups, errors.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "collectives/tcp/network.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/disturbed.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::tcp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Rank {
  std::unique_ptr<Network> network;
  std::unique_ptr<Communicator> world;
};

absl::StatusOr<Rank> MakeRank(int rank, int ranks, const Exchange& exchange,
                              const NetworkOptions& options = {}) {
  Rank result;
  ASSIGN_OR_RETURN(result.network, Network::Create(rank, ranks, exchange, options));
  ASSIGN_OR_RETURN(result.world, result.network->World());
  return result;
}

void ExpectOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

class TcpTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TcpTest, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(TcpTest, EveryOperation) {
  const int ranks = GetParam();
  ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
    ConformanceOptions options;
    return CheckOperations(*self.world, options);
  }));
}

// Parts of more pieces than may be in flight, of which the last is short.
class TcpLargeTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TcpLargeTest, testing::Values(2, 3, 5));

TEST_P(TcpLargeTest, EveryOperation) {
  const int ranks = GetParam();
  ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
    ConformanceOptions options;
    options.sizes = {700001};
    options.large_sizes = {};
    options.dtypes = {DType::kI64};
    return CheckOperations(*self.world, options);
  }));
}

TEST(TcpProgressTest, OperationsGoOnWhenTheirRankDoesNotWait) {
  std::atomic<int> ended = 0;
  ExpectOk(RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
    return CheckUnwaitedOperations(*self.world, &ended);
  }));
}

// The formulas for bytes in docs/collectives.md, the bytes counted, and the bytes written agree.
TEST(TcpTrafficTest, BytesAreThoseOfTheFormulas) {
  for (const int ranks : {2, 3, 5}) {
    ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, ranks, exchange));
      Communicator& world = *self.world;
      const auto sent = [&](Operation operation) {
        return world.traffic()[static_cast<size_t>(operation)].bytes_sent;
      };
      int64_t all = 0;
      const auto expect = [&](Operation operation, int64_t before, int64_t elements) {
        EXPECT_EQ(sent(operation) - before, elements * 4) << OperationName(operation);
        all += elements * 4;
      };
      std::vector<float> data(500000), other(500000);
      for (const int64_t count : {0, 7, 4096, 4097, 100001, 400001}) {
        const int64_t part = (count + ranks - 1) / ranks;
        const int64_t own = PartOf(count, part, rank).size;
        const int64_t peers = ranks - 1;
        int64_t before = sent(Operation::kAllReduce);
        RETURN_IF_ERROR(world.Wait(world.AllReduce(data.data(), data.data(), count, DType::kF32)));
        const int64_t share = PartOf(count, (part + 63) / 64 * 64, rank).size;
        expect(Operation::kAllReduce, before,
               count <= 4096 ? count * peers : count - share + share * peers);
        before = sent(Operation::kReduceScatter);
        RETURN_IF_ERROR(
            world.Wait(world.ReduceScatter(data.data(), other.data(), count, part, DType::kF32)));
        expect(Operation::kReduceScatter, before, count - own);
        before = sent(Operation::kAllGather);
        RETURN_IF_ERROR(
            world.Wait(world.AllGather(data.data(), other.data(), count, part, DType::kF32)));
        expect(Operation::kAllGather, before, own * peers);
        before = sent(Operation::kAllToAll);
        RETURN_IF_ERROR(world.Wait(world.AllToAll(data.data(), other.data(), part, DType::kF32)));
        expect(Operation::kAllToAll, before, part * peers);
        before = sent(Operation::kBroadcast);
        RETURN_IF_ERROR(
            world.Wait(world.Broadcast(data.data(), data.data(), count, DType::kF32, 1)));
        // With five ranks the root sends the data to the ranks 4, 2 and 1 after it, and the rank 2
        // after it forwards it to one more.
        const int behind = (rank + ranks - 1) % ranks;
        const int64_t children = behind == 0   ? (ranks == 5 ? 3 : ranks - 1)
                                 : behind == 2 ? (ranks == 5 ? 1 : 0)
                                               : 0;
        expect(Operation::kBroadcast, before,
               count <= 4096 ? (rank == 1 ? count * peers : 0) : count * children);
        before = sent(Operation::kSend);
        const Ticket send = world.Send(data.data(), count, DType::kF32, (rank + 1) % ranks);
        const int from = (rank + ranks - 1) % ranks;
        RETURN_IF_ERROR(world.Wait(world.Receive(other.data(), count, DType::kF32, from)));
        RETURN_IF_ERROR(world.Wait(send));
        expect(Operation::kSend, before, count);
      }
      RETURN_IF_ERROR(world.Wait(world.Barrier()));
      EXPECT_EQ(self.network->BytesWritten(), all);
      return absl::OkStatus();
    }));
  }
}

TEST(TcpGroupsTest, ARankWithANegativeColorIsInNoGroup) {
  ExpectOk(RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
    ASSIGN_OR_RETURN(auto group, self.world->Split("pair", {0, -1, 0}));
    if ((group == nullptr) != (rank == 1)) return absl::InternalError("another group");
    return group == nullptr ? absl::OkStatus() : group->Wait(group->Barrier());
  }));
}

// One group waits for a rank that first runs a large operation in another group; both groups share
// their connections.
TEST(TcpGroupsTest, AGroupThatWaitsKeepsNoOtherFromGoingOn) {
  ExpectOk(RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
    ASSIGN_OR_RETURN(auto all, self.world->Split("all", {0, 0, 0}));
    ASSIGN_OR_RETURN(auto pair, self.world->Split("pair", {0, 0, -1}));
    constexpr int64_t kCount = 3 << 20;
    std::vector<float> a(kCount, 1), b(kCount, 1);
    Ticket first;
    if (rank < 2) {
      first = all->AllReduce(a.data(), a.data(), kCount, DType::kF32);
      RETURN_IF_ERROR(pair->Wait(pair->AllReduce(b.data(), b.data(), kCount, DType::kF32)));
      if (b[kCount - 1] != 2) return absl::InternalError("a wrong sum");
    }
    // Rank 2 takes part only after the others have finished with the pair.
    if (rank == 0) {
      const int64_t go = 1;
      RETURN_IF_ERROR(self.world->Wait(self.world->Send(&go, 1, DType::kI64, 2)));
    }
    if (rank == 2) {
      int64_t go = 0;
      RETURN_IF_ERROR(self.world->Wait(self.world->Receive(&go, 1, DType::kI64, 0)));
      first = all->AllReduce(a.data(), a.data(), kCount, DType::kF32);
    }
    RETURN_IF_ERROR(all->Wait(first));
    return a[kCount - 1] == 3 ? absl::OkStatus() : absl::InternalError("a wrong sum");
  }));
}

TEST(TcpGroupsTest, ThreadsUseTheirGroupsAtOnce) {
  ExpectOk(RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int g = 0; g < 3; ++g) {
      ASSIGN_OR_RETURN(auto group, self.world->Split(absl::StrCat("group", g), {0, 0}));
      groups.push_back(std::move(group));
    }
    std::vector<absl::Status> results(groups.size());
    std::vector<std::thread> threads;
    for (size_t g = 0; g < groups.size(); ++g) {
      threads.emplace_back([&, g] {
        ConformanceOptions options;
        options.dtypes = {DType::kF32};
        results[g] = CheckOperations(*groups[g], options);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : results) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }));
}

// More messages than may be sent before the peer requests them.
TEST(TcpPairsTest, SmallMessagesAreSentBeforeTheyAreAskedFor) {
  ExpectOk(RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
    const int peer = 1 - rank;
    int64_t sent[30], received[30];
    std::vector<Ticket> tickets;
    for (int k = 0; k < 30; ++k) {
      sent[k] = 100 * rank + k;
      tickets.push_back(self.world->Send(&sent[k], 1, DType::kI64, peer));
      if (k < 4) RETURN_IF_ERROR(self.world->Wait(tickets[k]));
    }
    for (int k = 0; k < 30; ++k) {
      RETURN_IF_ERROR(self.world->Wait(self.world->Receive(&received[k], 1, DType::kI64, peer)));
      if (received[k] != 100 * peer + k) return absl::InternalError("another message");
    }
    for (const Ticket& ticket : tickets) RETURN_IF_ERROR(self.world->Wait(ticket));
    return absl::OkStatus();
  }));
}

TEST(TcpErrorsTest, RanksThatDisagreeGetAllRequests) {
  for (const int64_t count : {4, 40000}) {
    const auto results = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
      std::vector<float> data(count);
      Communicator& world = *self.world;
      absl::Status status =
          rank == 1 ? world.Wait(world.AllReduce(data.data(), data.data(), count, DType::kF32))
                    : world.Wait(world.Broadcast(data.data(), data.data(), count, DType::kF32, 0));
      // The group stays broken.
      if (status.ok() || world.Wait(world.Barrier()).ok()) {
        return absl::InternalError("it went on");
      }
      return status;
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("the ranks of group 'world' disagree on operation "),
                        HasSubstr(absl::StrCat("rank 0 requests broadcast of ", count,
                                               " f32 from rank 0, rank 1 requests all-reduce of ",
                                               count, " f32 (sum), rank 2 requests broadcast"))));
    }
  }
}

// Every field that requests can differ in, for small and large operations.
TEST(TcpErrorsTest, EveryDifferenceIsNoticed) {
  std::vector<float> memory(400000);
  const Request base = {.operation = Operation::kReduceScatter,
                        .input = memory.data(),
                        .output = memory.data() + 200000,
                        .count = 60,
                        .part = 20};
  std::vector<Request> others(5, base);
  others[0].count = 59;
  others[1].part = 30;
  others[2].dtype = DType::kI32;
  others[3].reduction = Reduction::kMax;
  others[4].count = 60000;
  others[4].part = 20000;
  for (const Request& other : others) {
    const auto results = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
      std::vector<float> own(400000);
      Request request = rank == 1 ? other : base;
      request.input = own.data();
      request.output = own.data() + 200000;
      return self.world->Wait(self.world->Issue(request));
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("disagree on operation 1"), HasSubstr(Describe(base)),
                        HasSubstr(Describe(other))));
    }
  }
}

TEST(TcpErrorsTest, ASenderAndAReceiverMayDisagree) {
  for (const int64_t count : {3, 30000}) {
    const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 2, exchange));
      Communicator& world = *self.world;
      std::vector<float> data(count + 1);
      if (rank == 1) return world.Wait(world.Receive(data.data(), count + 1, DType::kF32, 0));
      const absl::Status sent = world.Wait(world.Send(data.data(), count, DType::kF32, 1));
      return sent.ok() ? world.Wait(world.Barrier()) : sent;
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(
          std::string(status.message()),
          AllOf(HasSubstr(absl::StrCat("requests send of ", count, " f32 to rank 1")),
                HasSubstr(absl::StrCat("requests receive of ", count + 1, " f32 from rank 0"))));
    }
  }
}

TEST(TcpErrorsTest, AnInvalidRequestIsReportedOnAllRanks) {
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

TEST(TcpErrorsTest, NobodyWaitsLongerThanTheTimeOut) {
  const auto results = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    NetworkOptions options;
    options.timeout_seconds = 0.3;
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange, options));
    if (rank == 2) {  // issues nothing
      std::this_thread::sleep_for(std::chrono::milliseconds(800));
      return absl::OkStatus();
    }
    return self.world->Wait(self.world->Barrier());
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 2 (process "), HasSubstr("did not come within 0.3 s")));
  }
}

TEST(TcpErrorsTest, AFaultCanBeInjected) {
  const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(Rank self, MakeRank(rank, 2, exchange));
    if (rank == 1) self.world = WithFault(std::move(self.world), {.operation = 2, .fails = true});
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    return self.world->Wait(self.world->Barrier());
  });
  EXPECT_EQ(results[1].message(), "barrier: injected fault");
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("aborted: barrier: injected fault"));
}

TEST(TcpErrorsTest, ARankThatHasLeftIsNotWaitedFor) {
  const auto results = RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const Rank self, MakeRank(rank, 3, exchange));
    if (rank == 2) return absl::OkStatus();
    return self.world->Wait(self.world->Barrier());
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 2 (process "), HasSubstr("has left; waiting in barrier")));
  }
}

TEST(TcpErrorsTest, AnInterfaceThatIsNotThereIsAnErrorOnAllRanks) {
  const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    NetworkOptions options;
    options.interface = rank == 0 ? "lo" : "no-such-interface";
    return MakeRank(rank, 2, exchange, options).status();
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1: 'no-such-interface' is neither an address nor an interface"));
  }
}

}  // namespace
}  // namespace tessera::comm::tcp
