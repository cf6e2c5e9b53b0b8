// Compares times with the formulas of NCCL's tuning model, worked out by hand.
#include "core/cost/nccl_prices.h"

#include "gtest/gtest.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

Cluster A100() {
  Cluster cluster;
  cluster.mutable_within_host()->set_bytes_per_second(240e9);
  cluster.mutable_between_hosts()->set_bytes_per_second(25e9);
  cluster.mutable_nccl()->set_generation(Nccl::AMPERE);
  return cluster;
}

double Seconds(Operation operation, int64_t bytes, const NcclGroup& group,
               const Cluster& cluster = A100()) {
  const CollectiveCall call = {operation, DType::kU8, Reduction::kSum,
                               {},        bytes,      bytes / group.ranks};
  return NcclSeconds(call, group, cluster);
}

constexpr NcclGroup kHost = {8, 1, 8}, kTwoHosts = {16, 2, 8}, kManyHosts = {512, 64, 8};

TEST(NcclPricesTest, LargeCollectivesTakeTheBandwidthOfARing) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const auto bytes = static_cast<double>(kBytes);
  // Simple, 7 steps of 3.4 us; 14 for an all-reduce.
  EXPECT_NEAR(Seconds(Operation::kAllGather, kBytes, kHost),
              8.4e-6 + 7 * 3.4e-6 + bytes * 7 / 8 / 240e9, 1e-9);
  EXPECT_NEAR(Seconds(Operation::kReduceScatter, kBytes, kHost),
              8.4e-6 + 7 * 3.4e-6 + bytes * 7 / 8 / 240e9, 1e-9);
  EXPECT_NEAR(Seconds(Operation::kAllReduce, kBytes, kHost),
              8.4e-6 + 14 * 3.4e-6 + bytes * 14 / 8 / 240e9, 1e-9);
  // Between hosts: the network of 8 ranks, 63 of 511 steps over it. LL128 has the lower latency,
  // and less bandwidth.
  EXPECT_NEAR(Seconds(Operation::kAllGather, kBytes, kManyHosts),
              14e-6 + 448 * 1.9e-6 + 63 * 4e-6 + bytes * 511 / 512 / (0.92 * 200e9), 1e-9);
  EXPECT_NEAR(Seconds(Operation::kAllGather, 8 * kBytes, kManyHosts),
              8.4e-6 + 448 * 3.4e-6 + 63 * 14e-6 + 8 * bytes * 511 / 512 / 200e9, 1e-9);
  EXPECT_NEAR(Seconds(Operation::kAllReduce, kBytes, kTwoHosts),
              1.4 * (8.4e-6 + 26 * 3.4e-6 + 4 * 14e-6) + bytes * 30 / 16 / 200e9, 1e-9);
}

TEST(NcclPricesTest, SmallCollectivesTakeTheLatencyOfLL) {
  EXPECT_NEAR(Seconds(Operation::kAllGather, 8, kHost), 6.6e-6 + 7 * 0.6e-6, 1e-8);
  // A tree: 7 steps up and down within the host, log2 of the hosts between them.
  EXPECT_NEAR(Seconds(Operation::kAllReduce, 64, kManyHosts), 6.8e-6 + 2 * (7 * 0.6e-6 + 6 * 5e-6),
              1e-8);
  EXPECT_NEAR(Seconds(Operation::kAllReduce, 64, kHost), 6.6e-6 + 14 * 0.6e-6, 1e-8);
}

TEST(NcclPricesTest, MediumCollectivesTakeLLOrLL128) {
  constexpr int64_t kBytes = 256 << 10;
  // LL has a third of the bandwidth.
  EXPECT_NEAR(Seconds(Operation::kAllGather, kBytes, kHost),
              6.6e-6 + 7 * 0.6e-6 + kBytes * 7.0 / 8 / 80e9, 1e-9);
  constexpr int64_t kMedium = 4 << 20;
  EXPECT_NEAR(Seconds(Operation::kAllGather, kMedium, kHost),
              14e-6 + 7 * 1.9e-6 + kMedium * 7.0 / 8 / (0.92 * 240e9), 1e-9);
  Cluster pcie = A100();
  pcie.mutable_nccl()->set_pcie_within_host(true);
  EXPECT_NEAR(Seconds(Operation::kAllGather, kMedium, kHost, pcie),
              6.6e-6 + 7 * 1.0e-6 + kMedium * 7.0 / 8 / 80e9, 1e-9);
  constexpr int64_t kLarge = 16 << 20;
  EXPECT_NEAR(Seconds(Operation::kAllGather, kLarge, kHost, pcie),
              8.4e-6 + 7 * 5.7e-6 + kLarge * 7.0 / 8 / 240e9, 1e-9);
}

TEST(NcclPricesTest, AGroupHasTheNetworkOfItsRanksOfAHost) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const auto bytes = static_cast<double>(kBytes);
  EXPECT_NEAR(Seconds(Operation::kAllGather, kBytes, {8, 8, 1}),
              8.4e-6 + 7 * 14e-6 + bytes * 7 / 8 / 25e9, 1e-9);
  EXPECT_NEAR(Seconds(Operation::kAllGather, kBytes, {8, 4, 2}),
              8.4e-6 + 4 * 3.4e-6 + 3 * 14e-6 + bytes * 7 / 8 / 50e9, 1e-9);
}

TEST(NcclPricesTest, ASlowNetworkHasItsOwnLatency) {
  Cluster slow = A100();
  slow.mutable_between_hosts()->set_latency_seconds(50e-6);
  EXPECT_NEAR(Seconds(Operation::kAllGather, 8, {8, 8, 1}, slow), 6.6e-6 + 7 * 50e-6, 1e-8);
}

TEST(NcclPricesTest, SwitchesReduce) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const auto bytes = static_cast<double>(kBytes);
  Cluster cluster = A100();
  cluster.mutable_nccl()->set_nvls_bytes_per_second(480e9);
  EXPECT_NEAR(Seconds(Operation::kAllReduce, kBytes, kHost, cluster),
              23e-6 + bytes * 14 / 8 / 480e9, 1e-9);
  EXPECT_EQ(Seconds(Operation::kAllGather, kBytes, kHost, cluster),
            Seconds(Operation::kAllGather, kBytes, kHost));
}

TEST(NcclPricesTest, AnAllToAllSendsToTheHostAndTheNetworkAtTheSameTime) {
  constexpr int64_t kBytes = 16 << 20;
  EXPECT_NEAR(Seconds(Operation::kAllToAll, kBytes, kTwoHosts),
              8.4e-6 + 14e-6 + kBytes / 2.0 / 25e9, 1e-9);
  EXPECT_NEAR(Seconds(Operation::kAllToAll, kBytes, kHost),
              8.4e-6 + 3.4e-6 + kBytes * 7.0 / 8 / 240e9, 1e-9);
}

}  // namespace
}  // namespace tessera
