// Ranks as threads: values of every operation, bytes, groups, errors.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/fake/fake.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/hosts.h"
#include "core/status/status_macros.h"
#include "core/tensor/half.h"
#include "core/tensor/rank_placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::hierarchical {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using HostOf = std::vector<int>;

void ExpectOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

std::string TestName(const testing::TestParamInfo<HostOf>& info) {
  return absl::StrCat("Hosts", absl::StrJoin(info.param, ""));
}

class HierarchicalTest : public testing::TestWithParam<HostOf> {
 protected:
  // Returns the ranks of each host; empty if sums are in the order of reduce.h.
  static std::vector<std::vector<int>> Hosts() {
    const RankPlacement placement = PlaceRanks(GetParam());
    if (placement.keeps_order) return {};
    return placement.hosts;
  }
  static int ranks() { return static_cast<int>(GetParam().size()); }
};
INSTANTIATE_TEST_SUITE_P(Placements, HierarchicalTest,
                         testing::Values(HostOf{0, 0, 1, 1}, HostOf{0, 0, 1, 1, 2, 2},
                                         HostOf{0, 0, 0, 0, 1, 1, 1, 1},  //
                                         HostOf{0, 0, 0, 1, 1, 1}, HostOf{0, 0, 1},
                                         HostOf{0, 1, 1, 2, 2}, HostOf{0, 1, 0, 1},
                                         HostOf{0, 1, 1, 0}, HostOf{0, 0, 0}, HostOf{0, 1, 2}),
                         TestName);

TEST_P(HierarchicalTest, EveryOperation) {
  ExpectOk(RunThreads(ranks(), [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, GetParam(), exchange));
    ConformanceOptions options;
    options.hosts = Hosts();
    options.sizes = {0, 1, 7, 65, 4097};
    return CheckOperations(*self.world, options);
  }));
}

TEST_P(HierarchicalTest, InSharedMemory) {
  ExpectOk(RunThreads(ranks(), [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, GetParam(), exchange));
    ConformanceOptions options;
    options.hosts = Hosts();
    options.sizes = {1000};
    options.large_sizes = {50001};
    options.dtypes = {DType::kF32, DType::kF16, DType::kI64};
    ASSIGN_OR_RETURN(options.shared,
                     self.shm_backend->Allocate(*self.host_group, 2 * (50001 * 8 + 192)));
    return CheckOperations(*self.world, options);
  }));
}

// Several chunks, of which the last is short. A sum in chunks has the same bits as one in small
// buffers.
TEST(HierarchicalChunksTest, AllReduceAndBroadcast) {
  constexpr int64_t kCount = 3 * (2 << 20) + 3, kSmall = 1000;
  const auto make = [](int rank) {
    std::vector<BFloat16> data(kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      data[i] = BFloat16(static_cast<float>((i * 7919 + rank * 31) % 1009) * 0.37f);
    }
    return data;
  };
  const auto same = [](const BFloat16* a, const BFloat16* b, int64_t count) {
    return std::memcmp(a, b, count * sizeof(BFloat16)) == 0;
  };
  for (const HostOf& host_of : {HostOf{0, 0, 1, 1}, HostOf{0, 1, 1, 2, 2}}) {
    const int ranks = static_cast<int>(host_of.size());
    ExpectOk(RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange));
      Communicator& world = *self.world;
      const std::vector<BFloat16> data = make(rank);
      std::vector<BFloat16> result(kCount), small(kSmall);
      RETURN_IF_ERROR(
          world.Wait(world.AllReduce(data.data(), result.data(), kCount, DType::kBF16)));
      for (int64_t begin = 0; begin + kSmall <= kCount; begin += 97 * kSmall) {
        RETURN_IF_ERROR(
            world.Wait(world.AllReduce(data.data() + begin, small.data(), kSmall, DType::kBF16)));
        EXPECT_TRUE(same(small.data(), result.data() + begin, kSmall)) << begin;
      }
      for (int root = 0; root < ranks; ++root) {
        RETURN_IF_ERROR(
            world.Wait(world.Broadcast(data.data(), result.data(), kCount, DType::kBF16, root)));
        EXPECT_TRUE(same(result.data(), make(root).data(), kCount)) << root;
      }
      return world.Wait(world.Barrier());
    }));
  }
}

TEST_P(HierarchicalTest, OverlappingGroups) {
  ExpectOk(RunThreads(ranks(), [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, GetParam(), exchange));
    std::vector<int> halves, pairs;
    for (int r = 0; r < ranks(); ++r) {
      halves.push_back(r % 2);
      pairs.push_back(r == ranks() - 1 ? -1 : 0);
    }
    ASSIGN_OR_RETURN(const auto half, self.world->Split("half", halves));
    ASSIGN_OR_RETURN(const auto most, self.world->Split("most", pairs));
    EXPECT_EQ(most == nullptr, rank == ranks() - 1);
    for (Communicator* group : {half.get(), most.get(), self.world.get()}) {
      if (group == nullptr) continue;
      std::vector<int> hosts;
      const std::vector<int>& colors = group == half.get() ? halves : pairs;
      for (int r = 0; r < ranks(); ++r) {
        if (group == self.world.get() || colors[r] == colors[rank]) hosts.push_back(GetParam()[r]);
      }
      ConformanceOptions options;
      const RankPlacement placement = PlaceRanks(hosts);
      if (!placement.keeps_order && placement.host_count() < placement.size()) {
        options.hosts = placement.hosts;
      }
      options.sizes = {0, 1000};
      options.large_sizes = {9000};
      options.dtypes = {DType::kF32};
      RETURN_IF_ERROR(CheckOperations(*group, options));
    }
    return self.world->Wait(self.world->Barrier());
  }));
}

// Collectives and messages in flight at once; all are issued before any is waited for.
TEST(HierarchicalOrderTest, OperationsMoveOnBesideEachOther) {
  const HostOf host_of = {0, 0, 1, 1};
  ExpectOk(RunThreads(4, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange));
    Communicator& world = *self.world;
    std::vector<std::vector<float>> data(6, std::vector<float>(30000, 1.0f));
    std::vector<float> sent(20000, static_cast<float>(rank)), received(20000);
    std::vector<Ticket> tickets;
    // Each rank issues them in a different order, as far as that is allowed.
    const auto send = [&] {
      tickets.push_back(world.Send(sent.data(), 20000, DType::kF32, (rank + 1) % 4));
    };
    if (rank % 2 == 0) send();
    for (auto& each : data) {
      tickets.push_back(world.AllReduce(each.data(), each.data(), 30000, DType::kF32));
    }
    if (rank % 2 == 1) send();
    tickets.push_back(world.Receive(received.data(), 20000, DType::kF32, (rank + 3) % 4));
    while (!world.Test(tickets.back())) {
    }
    for (const Ticket& ticket : tickets) RETURN_IF_ERROR(world.Wait(ticket));
    EXPECT_EQ(received[19999], static_cast<float>((rank + 3) % 4));
    for (const auto& each : data) EXPECT_EQ(each[29999], 4.0f);
    return world.Wait(world.Barrier());
  }));
}

// The formulas of the table in docs/collectives.md.
TEST(HierarchicalTrafficTest, BytesAreThoseOfTheFormulas) {
  const HostOf host_of = {0, 0, 0, 0, 1, 1, 1, 1};
  constexpr int64_t kLocal = 4, kHosts = 2;
  ExpectOk(RunThreads(8, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange));
    Communicator& world = *self.world;
    RETURN_IF_ERROR(world.Wait(world.Barrier()));
    int64_t written = self.network->BytesWritten();
    constexpr int64_t kRequestBytes = 24 * (kHosts - 1);  // which are not counted
    const auto expect = [&](Operation operation, int64_t before, int64_t bytes, int64_t network) {
      EXPECT_EQ(world.traffic()[static_cast<size_t>(operation)].bytes_sent - before, bytes)
          << OperationName(operation);
      written += network + kRequestBytes;
      EXPECT_EQ(self.network->BytesWritten(), written) << OperationName(operation);
    };
    const auto sent = [&](Operation operation) {
      return world.traffic()[static_cast<size_t>(operation)].bytes_sent;
    };
    std::vector<float> data(800000), other(800000);
    for (const int64_t count : {51200, 800000}) {
      const int64_t part = count / 8, own = count / kLocal;  // of a rank, of a rail
      int64_t before = sent(Operation::kAllReduce);
      RETURN_IF_ERROR(world.Wait(world.AllReduce(data.data(), data.data(), count, DType::kF32)));
      const int64_t across = 2 * own * (kHosts - 1) / kHosts;
      expect(Operation::kAllReduce, before, (2 * (kLocal - 1) * own + across) * 4, across * 4);
      before = sent(Operation::kReduceScatter);
      RETURN_IF_ERROR(
          world.Wait(world.ReduceScatter(data.data(), other.data(), count, part, DType::kF32)));
      expect(Operation::kReduceScatter, before,
             (kHosts * (kLocal - 1) * part + (kHosts - 1) * part) * 4, part * 4);
      before = sent(Operation::kAllGather);
      RETURN_IF_ERROR(
          world.Wait(world.AllGather(data.data(), other.data(), count, part, DType::kF32)));
      expect(Operation::kAllGather, before,
             (kHosts * (kLocal - 1) * part + (kHosts - 1) * part) * 4, part * 4);
      before = sent(Operation::kAllToAll);
      RETURN_IF_ERROR(world.Wait(world.AllToAll(data.data(), other.data(), part, DType::kF32)));
      expect(Operation::kAllToAll, before, 7 * part * 4, kLocal * part * 4);
    }
    // Up to 4 KiB.
    constexpr int64_t kCount = 1024, kPart = kCount / 8;
    int64_t before = sent(Operation::kAllReduce);
    RETURN_IF_ERROR(world.Wait(world.AllReduce(data.data(), data.data(), kCount, DType::kF32)));
    expect(Operation::kAllReduce, before, (kLocal - 1 + kHosts - 1) * kCount * 4, kCount * 4);
    before = sent(Operation::kReduceScatter);
    RETURN_IF_ERROR(
        world.Wait(world.ReduceScatter(data.data(), other.data(), kCount, kPart, DType::kF32)));
    expect(Operation::kReduceScatter, before, ((kLocal - 1) * kCount + (kHosts - 1) * kPart) * 4,
           kPart * 4);
    before = sent(Operation::kAllGather);
    RETURN_IF_ERROR(
        world.Wait(world.AllGather(data.data(), other.data(), kCount, kPart, DType::kF32)));
    expect(Operation::kAllGather, before, (kLocal - 1 + (kHosts - 1) * kLocal) * kPart * 4,
           kLocal * kPart * 4);
    before = sent(Operation::kBroadcast);
    RETURN_IF_ERROR(world.Wait(world.Broadcast(data.data(), data.data(), kCount, DType::kF32, 5)));
    expect(Operation::kBroadcast, before,
           ((rank == 5 ? kLocal - 1 : 0) + (rank >= 4 ? kHosts - 1 : 0)) * kCount * 4,
           (rank >= 4 ? kHosts - 1 : 0) * kCount * 4);
    return world.Wait(world.Barrier());
  }));
}

TEST(HierarchicalErrorTest, RanksOfAHostDisagree) {
  const HostOf host_of = {0, 0, 1, 1};
  const auto results = RunThreads(4, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange, 20));
    float data[8] = {};
    absl::Status status =
        self.world->Wait(self.world->AllReduce(data, data, rank == 3 ? 7 : 8, DType::kF32));
    EXPECT_EQ(self.world->Wait(self.world->Barrier()), status);
    return status;
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the ranks of group 'world' disagree on operation 1: rank 2 requests "
                          "all-reduce of 8 f32 (sum), rank 3 requests all-reduce of 7 f32 (sum)"));
  }
}

// Each host would choose a different algorithm between hosts.
TEST(HierarchicalErrorTest, HostsDisagree) {
  const HostOf host_of = {0, 0, 1, 1};
  const auto results = RunThreads(4, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange, 20));
    Communicator& world = *self.world;
    RETURN_IF_ERROR(world.Wait(world.Barrier()));
    std::vector<float> data(400000), other(400000);
    return world.Wait(
        rank < 2 ? world.AllToAll(data.data(), other.data(), 100000, DType::kF32)
                 : world.AllGather(data.data(), other.data(), 400000, 100000, DType::kF32));
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the ranks of group 'world' disagree on operation 2: rank "),
                      HasSubstr("requests all-to-all of 400000 f32 in parts of 100000"),
                      HasSubstr("requests all-gather of 400000 f32 in parts of 100000")));
  }
}

TEST(HierarchicalErrorTest, AnAbortIsReportedOnAllRanks) {
  const HostOf host_of = {0, 0, 1, 1};
  const auto results = RunThreads(4, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange, 20));
    float data[8] = {};
    if (rank == 1) self.world->Abort(absl::AbortedError("no memory"));
    return self.world->Wait(self.world->AllReduce(data, data, 8, DType::kF32));
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("no memory"));
  }
}

TEST(HierarchicalErrorTest, ASplitThatIsSummedOtherwiseSaysSo) {
  ExpectOk(RunThreads(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, {0, 0, 1}, exchange));
    EXPECT_THAT(self.world->note(), HasSubstr("group 'world': hosts do not have the same power"));
    return absl::OkStatus();
  }));
}

}  // namespace
}  // namespace tessera::comm::hierarchical
