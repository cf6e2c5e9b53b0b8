#include "core/cost/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kGood[] = R"(
  name: "two racks"
  f32_flops_per_second: 2e12
  bf16_flops_per_second: 9e12
  memory_bytes_per_second: 1e11
  ranks_per_host: 4
  within_host { latency_seconds: 2e-6 bytes_per_second: 5e10 }
  between_hosts { latency_seconds: 2e-5 bytes_per_second: 1e9 }
)";

std::string Error(const std::string& text) {
  return std::string(ParseCluster(text).status().message());
}

// Returns the error for the valid text with a field changed.
std::string With(const std::string& field) { return Error(std::string(kGood) + field); }

std::string Without(const std::string& from, const std::string& to) {
  std::string text = kGood;
  text.replace(text.find(from), from.size(), to);
  return Error(text);
}

TEST(ClusterTest, ReadsTheTextForm) {
  const absl::StatusOr<Cluster> cluster = ParseCluster(kGood);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->name(), "two racks");
  EXPECT_EQ(cluster->between_hosts().bytes_per_second(), 1e9);
}

TEST(ClusterTest, AByteOrderMarkIsSkipped) {
  EXPECT_TRUE(ParseCluster(std::string("\xEF\xBB\xBF") + kGood).ok());
}

TEST(ClusterTest, ErrorsAreOneLineThatNamesTheField) {
  EXPECT_EQ(Without("f32_flops_per_second: 2e12", ""),
            "f32_flops_per_second is missing: it has to be above 0");
  EXPECT_EQ(Without("memory_bytes_per_second: 1e11", "memory_bytes_per_second: -3"),
            "memory_bytes_per_second is -3, and has to be above 0");
  EXPECT_EQ(Without("f32_flops_per_second: 2e12", "f32_flops_per_second: inf"),
            "f32_flops_per_second is inf, and has to be above 0");
  EXPECT_EQ(With("f16_flops_per_second: nan"),
            "f16_flops_per_second is nan, and has to be 0 or more");
  EXPECT_EQ(With("memory_bytes: -1"), "memory_bytes is -1, and has to be 0 or more");
  EXPECT_EQ(Without("ranks_per_host: 4", "ranks_per_host: -4"),
            "ranks_per_host is -4, and has to be 0 or more");
  EXPECT_EQ(Without("latency_seconds: 2e-6", "latency_seconds: -2e-6"),
            "within_host.latency_seconds is -2e-06, and has to be 0 or more");
  EXPECT_EQ(Without("bytes_per_second: 5e10", ""),
            "within_host.bytes_per_second is missing: it has to be above 0");
  EXPECT_EQ(Without("between_hosts { latency_seconds: 2e-5 bytes_per_second: 1e9 }", ""),
            "between_hosts.bytes_per_second is missing: it has to be above 0");
  for (const char* text : {"f32_flops_per_secnd: 3", "f32_flops_per_second: x", "{", "\n\n;"}) {
    EXPECT_THAT(Error(text), StartsWith("is no cluster: line ")) << text;
    EXPECT_THAT(Error(text), Not(HasSubstr("\n"))) << text;
  }
}

TEST(ClusterTest, ErrorsOfProductRatesAndNccl) {
  EXPECT_EQ(With("product_rates { flops: 1e9 share_of_peak: 0.5 }"
                 "product_rates { flops: 1e12 share_of_peak: 1 } nccl {}"),
            "");
  EXPECT_EQ(With("product_rates { flops: 1e9 share_of_peak: 0.5 }"
                 "product_rates { flops: 1e9 share_of_peak: 0.6 }"),
            "product_rates.flops is 1e+09 after 1e+09, and has to ascend");
  EXPECT_EQ(With("product_rates { share_of_peak: 0.5 }"),
            "product_rates.flops is 0 after 0, and has to ascend");
  EXPECT_EQ(With("product_rates { flops: 1e9 share_of_peak: 1.5 }"),
            "product_rates.share_of_peak is 1.5, and has to be above 0 and at most 1");
  EXPECT_EQ(With("product_rates { flops: 1e9 }"),
            "product_rates.share_of_peak is 0, and has to be above 0 and at most 1");
  EXPECT_EQ(With("operator_rates { op: 'attention' rates { flops: 1e9 share_of_peak: 0.5 } }"), "");
  EXPECT_EQ(With("operator_rates { rates { flops: 1e9 share_of_peak: 0.5 } }"),
            "operator_rates.op is '', which is no operator");
  EXPECT_EQ(With("operator_rates { op: 'atention' rates { flops: 1e9 share_of_peak: 0.5 } }"),
            "operator_rates.op is 'atention', which is no operator");
  EXPECT_EQ(With("operator_rates { op: 'attention' }"),
            "operator_rates of 'attention' has no rates");
  EXPECT_EQ(With("operator_rates { op: 'attention' rates { flops: 1e9 share_of_peak: 0.5 } }"
                 "operator_rates { op: 'attention' rates { flops: 1e9 share_of_peak: 0.5 } }"),
            "operator_rates has two entries for 'attention'");
  EXPECT_EQ(With("operator_rates { op: 'attention' rates { flops: 1e9 share_of_peak: 2 } }"),
            "operator_rates of 'attention': rates.share_of_peak is 2, and has to be above 0 and at "
            "most 1");
  EXPECT_EQ(With("nccl { nvls_bytes_per_second: -1 }"),
            "nccl.nvls_bytes_per_second is -1, and has to be 0 or more");
  EXPECT_EQ(With("nccl { generation: 9 }"), "nccl.generation is 9, which is not known");
  for (const char* good : {"0", "0.148", "0.999"}) {
    EXPECT_EQ(With("nccl { share_of_device: " + std::string(good) + " }"), "");
  }
  for (const char* bad : {"-0.1", "1", "16", "inf", "-inf", "nan"}) {
    EXPECT_EQ(
        With("nccl { share_of_device: " + std::string(bad) + " }"),
        "nccl.share_of_device is " + std::string(bad) + ", and has to be 0 or more and below 1");
  }
}

TEST(ClusterTest, OnlyLinksThatExistAreRequired) {
  const std::string rates = "f32_flops_per_second: 1 memory_bytes_per_second: 1 ";
  const std::string link = "{ latency_seconds: 1 bytes_per_second: 1 }";
  EXPECT_EQ(Error(rates + "within_host " + link), "");
  EXPECT_EQ(Error(rates + "ranks_per_host: 1 between_hosts " + link), "");
  EXPECT_NE(Error(rates + "between_hosts " + link), "");
  EXPECT_NE(Error(rates + "ranks_per_host: 1 within_host " + link), "");
}

TEST(ClusterTest, ErrorsOfAFileBeginWithItsPath) {
  const std::string path = testing::TempDir() + "/cluster.textproto";
  std::ofstream(path) << kGood;
  EXPECT_TRUE(ReadCluster(path).ok());
  std::ofstream(path) << "name: 3";
  EXPECT_THAT(std::string(ReadCluster(path).status().message()), StartsWith(path + ": "));
  std::ofstream(path) << std::string(100000, ' ');
  EXPECT_EQ(ReadCluster(path).status().message(),
            path + ": is no cluster: it has more than 65536 bytes");
  std::remove(path.c_str());
  EXPECT_THAT(std::string(ReadCluster(path).status().message()),
              StartsWith(path + ": cannot read the cluster"));
  EXPECT_FALSE(ReadCluster(testing::TempDir()).ok());
}

TEST(ClusterTest, AMachineIsACluster) {
  for (const MachineRates& rates : {MachineRates{3e10, 2e9}, MachineRates{}}) {
    for (const CollectiveBackend backend : {CollectiveBackend::kShm, CollectiveBackend::kTcp}) {
      const Cluster cluster = ClusterOfMachine("cpu", rates, backend);
      EXPECT_TRUE(CheckCluster(cluster).ok()) << CheckCluster(cluster);
      EXPECT_EQ(cluster.ranks_per_host(), 0);
    }
  }
  EXPECT_EQ(ClusterOfMachine("cpu", {3e10, 2e9}).f32_flops_per_second(), 3e10);
  EXPECT_EQ(ClusterOfMachine("cpu", {3e10, 2e9}).memory_bytes_per_second(), 2e9);
}

TEST(ClusterTest, ConsecutiveRanksShareAHost) {
  Cluster cluster;
  EXPECT_THAT(SiteOnCluster(cluster, 3).host_of, ElementsAre(0, 0, 0));
  cluster.set_ranks_per_host(2);
  EXPECT_THAT(SiteOnCluster(cluster, 5).host_of, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(SiteOnCluster(cluster, 5).backend, CollectiveBackend::kHierarchical);
  cluster.mutable_nccl();
  EXPECT_EQ(SiteOnCluster(cluster, 5).backend, CollectiveBackend::kNccl);
}

}  // namespace
}  // namespace tessera
