#include "core/cost/cluster_prices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cost/cluster.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kWithinLatency = 1e-6, kWithinBytes = 1e10;
constexpr double kBetweenLatency = 1e-4, kBetweenBytes = 1e8;

Cluster MakeCluster(int ranks_per_host) {
  Cluster cluster;
  cluster.set_f32_flops_per_second(1e10);
  cluster.set_bf16_flops_per_second(4e10);
  cluster.set_memory_bytes_per_second(1e9);
  cluster.set_seconds_per_instruction(1e-6);
  cluster.set_ranks_per_host(ranks_per_host);
  cluster.mutable_within_host()->set_latency_seconds(kWithinLatency);
  cluster.mutable_within_host()->set_bytes_per_second(kWithinBytes);
  cluster.mutable_between_hosts()->set_latency_seconds(kBetweenLatency);
  cluster.mutable_between_hosts()->set_bytes_per_second(kBetweenBytes);
  return cluster;
}

Mesh MakeMesh(int data, int model) { return *Mesh::Create({{"data", data}, {"model", model}}); }

CollectiveCall AllGather(std::vector<int> axes, int64_t count, int64_t part) {
  CollectiveCall call;
  call.operation = CollectiveOperation::kAllGather;
  call.axes = std::move(axes);
  call.count = count;
  call.part = part;
  return call;
}

TEST(ClusterPricesTest, AGroupOnOneHostTakesItsLink) {
  const Mesh mesh = MakeMesh(2, 4);
  const ClusterPrices prices(MakeCluster(4), mesh);
  // Each of 4 ranks sends its 1000 floats to 3 others in one step.
  EXPECT_DOUBLE_EQ(prices.Seconds(AllGather({1}, 4000, 1000), mesh),
                   kWithinLatency + 3 * 4000 / kWithinBytes);
}

TEST(ClusterPricesTest, AGroupOnSeveralHostsTakesTheNetwork) {
  const Mesh mesh = MakeMesh(2, 4);
  const ClusterPrices prices(MakeCluster(4), mesh);
  EXPECT_DOUBLE_EQ(prices.Seconds(AllGather({0}, 2000, 1000), mesh),
                   kBetweenLatency + 4000 / kBetweenBytes);
  // Along both axes: each rank sends 1000 floats to a rank of the other host, and then 2000 floats
  // to each of the 3 other ranks of its host.
  EXPECT_DOUBLE_EQ(prices.Seconds(AllGather({0, 1}, 8000, 1000), mesh),
                   2 * kBetweenLatency + 2 * 3 * 4000 / kWithinBytes + 4000 / kBetweenBytes);
}

TEST(ClusterPricesTest, TheSlowestGroupDecides) {
  // With ranks 0 to 3 on one host and 4 and 5 on another, each pair of consecutive ranks shares a
  // host; of the groups of three consecutive ranks, only the first does.
  const Mesh pairs = *Mesh::Create({{"a", 3}, {"b", 2}});
  EXPECT_EQ(ClusterPrices(MakeCluster(4), pairs).GroupsAlong({1}).size(), 1u);
  const Mesh threes = *Mesh::Create({{"a", 2}, {"b", 3}});
  const ClusterPrices prices(MakeCluster(4), threes);
  EXPECT_EQ(prices.GroupsAlong({1}).size(), 2u);
  EXPECT_GT(prices.Seconds(AllGather({1}, 3000, 1000), threes), kBetweenLatency);
}

TEST(ClusterPricesTest, HostsMayBeOthersThanTheClusters) {
  const Mesh mesh = MakeMesh(2, 2);
  const GroupSite job = {CollectiveBackend::kHierarchical, {7, 3, 7, 3}};
  const ClusterPrices prices(MakeCluster(0), mesh, job);
  ASSERT_EQ(prices.GroupsAlong({0}).size(), 1u);
  EXPECT_THAT(prices.GroupsAlong({0})[0].site().host_of, ElementsAre(0, 0));
  EXPECT_THAT(prices.GroupsAlong({1})[0].site().host_of, ElementsAre(0, 1));
  EXPECT_LT(prices.Seconds(AllGather({0}, 20, 10), mesh), kBetweenLatency);
  EXPECT_GT(prices.Seconds(AllGather({1}, 20, 10), mesh), kBetweenLatency);
}

TEST(ClusterPricesTest, OneRankCommunicatesForNothing) {
  const Mesh mesh = MakeMesh(1, 2);
  const ClusterPrices prices(MakeCluster(0), mesh);
  EXPECT_THAT(prices.GroupsAlong({0}), IsEmpty());
  EXPECT_EQ(prices.Seconds(AllGather({0}, 20, 20), mesh), 0);
}

TEST(ClusterPricesTest, AllTrafficOfTcpTakesTheLinkBetweenHosts) {
  const Mesh mesh = *Mesh::Create({{"data", 2}});
  const GroupSite job = {CollectiveBackend::kTcp, {0, 1}};
  EXPECT_DOUBLE_EQ(
      ClusterPrices(MakeCluster(0), mesh, job).Seconds(AllGather({0}, 2000, 1000), mesh),
      kBetweenLatency + 4000 / kBetweenBytes);
}

TEST(ClusterPricesTest, TcpOnOneHostTakesItsLink) {
  const Mesh mesh = *Mesh::Create({{"data", 2}});
  const GroupSite job = {CollectiveBackend::kTcp, {0, 0}};
  EXPECT_DOUBLE_EQ(
      ClusterPrices(MakeCluster(0), mesh, job).Seconds(AllGather({0}, 2000, 1000), mesh),
      kWithinLatency + 4000 / kWithinBytes);
}

TEST(ClusterPricesTest, ComputationTakesItsFlopsOrItsBytes) {
  const Cluster cluster = MakeCluster(0);
  EXPECT_DOUBLE_EQ(
      ComputationSeconds("matmul", {.flops = 2e10, .bytes = 1e9}, DType::kF32, cluster), 2 + 1e-6);
  EXPECT_DOUBLE_EQ(
      ComputationSeconds("matmul", {.flops = 2e10, .bytes = 3e9}, DType::kF32, cluster), 3 + 1e-6);
  EXPECT_DOUBLE_EQ(ComputationSeconds("matmul", {.flops = 2e10}, DType::kBF16, cluster),
                   0.5 + 1e-6);
  // The cluster has no rate of f16 of its own.
  EXPECT_DOUBLE_EQ(ComputationSeconds("matmul", {.flops = 2e10}, DType::kF16, cluster), 2 + 1e-6);
}

// Regression: products of bf16 were priced as those of f32 if they also read a f32 for each token
// (the gradient of the loss), kept logits, or the f32 sum of gradients to which they are added.
TEST(ClusterPricesTest, AMatrixOf16BitsHasTheDTypeOfTheRate) {
  EXPECT_EQ(DTypeOfRate({}), DType::kF32);
  EXPECT_EQ(DTypeOfRate({{DType::kF32, {8, 4}}, {DType::kI32, {8, 4}}}), DType::kF32);
  EXPECT_EQ(DTypeOfRate({{DType::kBF16, {8, 4}}, {DType::kBF16, {8, 16}}, {DType::kF32, {4, 16}}}),
            DType::kBF16);
  EXPECT_EQ(DTypeOfRate({{DType::kF32, {8}}, {DType::kBF16, {8, 4}}, {DType::kBF16, {16, 4}}}),
            DType::kBF16);
  EXPECT_EQ(DTypeOfRate({{DType::kBF16, {8, 4}}, {DType::kF32, {4}}}), DType::kBF16);
}

TEST(ClusterPricesTest, ProductsReachAShareOfThePeakByTheirSize) {
  Cluster cluster = MakeCluster(0);
  EXPECT_EQ(ShareOfPeak("matmul", 1e9, cluster), 1);
  const double shares[][2] = {{1e9, 0.25}, {1e11, 0.75}};
  for (const auto& [flops, share] : shares) {
    RateOfSize& rate = *cluster.add_product_rates();
    rate.set_flops(flops);
    rate.set_share_of_peak(share);
  }
  EXPECT_EQ(ShareOfPeak("matmul", 0, cluster), 0.25);
  EXPECT_EQ(ShareOfPeak("matmul", 1e9, cluster), 0.25);
  EXPECT_DOUBLE_EQ(ShareOfPeak("matmul", 1e10, cluster), 0.5);
  EXPECT_EQ(ShareOfPeak("matmul", 1e11, cluster), 0.75);
  EXPECT_EQ(ShareOfPeak("matmul", 1e13, cluster), 0.75);
  EXPECT_DOUBLE_EQ(ComputationSeconds("matmul", {.flops = 1e10}, DType::kF32, cluster), 2 + 1e-6);
}

TEST(ClusterPricesTest, AnOperatorMayHaveRatesOfItsOwn) {
  Cluster cluster = MakeCluster(0);
  OperatorRates& attention = *cluster.add_operator_rates();
  attention.set_op("attention");
  RateOfSize& rate = *attention.add_rates();
  rate.set_flops(1e9);
  rate.set_share_of_peak(0.2);
  EXPECT_EQ(ShareOfPeak("attention", 1e12, cluster), 0.2);
  EXPECT_EQ(ShareOfPeak("attention_grad", 1e12, cluster), 1);
  EXPECT_EQ(ShareOfPeak("matmul", 1e12, cluster), 1);
  EXPECT_DOUBLE_EQ(ComputationSeconds("attention", {.flops = 1e10}, DType::kF32, cluster),
                   5 + 1e-6);
}

TEST(ClusterPricesTest, TheNetworkMattersOverNccl) {
  const Mesh mesh = MakeMesh(2, 4);
  Cluster cluster = MakeCluster(4);
  cluster.mutable_nccl();
  const CollectiveCall large = AllGather({0, 1}, 8000000, 1000000);
  const double seconds = ClusterPrices(cluster, mesh).Seconds(large, mesh);
  // A ring: 7/8 of 32 MB over the network of the four ranks of a host.
  EXPECT_NEAR(seconds, 28e6 / (4 * kBetweenBytes), 0.01 * seconds);
  cluster.mutable_between_hosts()->set_bytes_per_second(kBetweenBytes / 2);
  EXPECT_GT(ClusterPrices(cluster, mesh).Seconds(large, mesh), 1.9 * seconds);
}

}  // namespace
}  // namespace tessera
