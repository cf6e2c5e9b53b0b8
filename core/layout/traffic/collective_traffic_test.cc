// Tests steps and network bytes, which the backends do not count. tests/collectives tests the bytes
// that they count.
#include "core/layout/traffic/collective_traffic.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

CollectiveTraffic Traffic(Operation operation, int64_t count, CollectiveBackend backend,
                          std::vector<int> host_of) {
  const int ranks = static_cast<int>(host_of.size());
  const CollectiveCall call = {operation, DType::kF32, Reduction::kSum, {}, count, count / ranks};
  return TrafficOf(call, {backend, std::move(host_of)}, 0);
}

TEST(CollectiveTrafficTest, OneRankSendsNothing) {
  EXPECT_EQ(Traffic(Operation::kAllReduce, 1000, CollectiveBackend::kNccl, {0}),
            (CollectiveTraffic{1, 0, 0, 0}));
}

TEST(CollectiveTrafficTest, SmallAllReducesTakeOneStep) {
  EXPECT_EQ(Traffic(Operation::kAllReduce, 4096, CollectiveBackend::kShm, {0, 0}),
            (CollectiveTraffic{1, 16384, 0, 1}));
  EXPECT_EQ(Traffic(Operation::kAllReduce, 8192, CollectiveBackend::kTcp, {0, 1}),
            (CollectiveTraffic{1, 32768, 32768, 2}));
  EXPECT_EQ(Traffic(Operation::kAllGather, 8192, CollectiveBackend::kTcp, {0, 1}),
            (CollectiveTraffic{1, 16384, 16384, 1}));
}

TEST(CollectiveTrafficTest, HostsSendAPartOfTheirBytesOverTheNetwork) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  EXPECT_EQ(Traffic(Operation::kAllReduce, 8192, CollectiveBackend::kHierarchical, hosts),
            (CollectiveTraffic{1, 2 * 16384 + 16384, 16384, 4}));
  EXPECT_EQ(Traffic(Operation::kReduceScatter, 8192, CollectiveBackend::kHierarchical, hosts),
            (CollectiveTraffic{1, 2 * 8192 + 8192, 8192, 2}));
  EXPECT_EQ(Traffic(Operation::kAllReduce, 64, CollectiveBackend::kHierarchical, hosts),
            (CollectiveTraffic{1, 512, 256, 2}));
}

TEST(CollectiveTrafficTest, RingsTakeAStepForEachRank) {
  const std::vector<int> ranks(8, 0);
  EXPECT_EQ(Traffic(Operation::kAllReduce, 8192, CollectiveBackend::kNccl, ranks),
            (CollectiveTraffic{1, 2 * 7 * 4096, 0, 14}));
  EXPECT_EQ(Traffic(Operation::kAllToAll, 8192, CollectiveBackend::kNccl, ranks),
            (CollectiveTraffic{1, 7 * 4096, 0, 7}));
}

TEST(CollectiveTrafficTest, TheLastRankOfAHostSendsToTheNextHostOfARing) {
  const GroupTraffic group({CollectiveBackend::kNccl, {0, 0, 1, 1, 1}});
  const CollectiveCall call = {Operation::kAllGather, DType::kF32, Reduction::kSum, {}, 500, 100};
  for (int rank = 0; rank < 5; ++rank) {
    const int64_t network = rank == 1 || rank == 4 ? 1600 : 0;
    EXPECT_EQ(group.Of(call, rank), (CollectiveTraffic{1, 1600, network, 4})) << rank;
  }
  const CollectiveCall all_to_all = {
      Operation::kAllToAll, DType::kF32, Reduction::kSum, {}, 500, 100};
  EXPECT_EQ(group.Of(all_to_all, 0), (CollectiveTraffic{1, 1600, 1200, 4}));
  EXPECT_EQ(group.Of(all_to_all, 2), (CollectiveTraffic{1, 1600, 800, 4}));
  EXPECT_EQ(group.LeastRanksOfHost(), 2);
}

TEST(CollectiveTrafficTest, BackendsAreKnownByName) {
  EXPECT_EQ(*ParseCollectiveBackend("hierarchical"), CollectiveBackend::kHierarchical);
  EXPECT_THAT(ParseCollectiveBackend("gloo").status().message(),
              ::testing::HasSubstr("'gloo' is no backend of collectives; one is shm, tcp"));
}

}  // namespace
}  // namespace tessera
