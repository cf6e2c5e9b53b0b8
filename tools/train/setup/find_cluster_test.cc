// Reads all clusters that come with the program.
#include "tools/train/setup/find_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/layout/traffic/collective_traffic.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

TEST(FindClusterTest, AllBundledClustersAreValid) {
  for (const absl::string_view name : BundledClusters()) {
    const absl::StatusOr<Cluster> cluster = ReadNamedCluster(std::string(name));
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_NE(cluster->name(), "") << name;
    EXPECT_GT(cluster->memory_bytes(), 0) << name;
    EXPECT_GT(cluster->seconds_per_instruction(), 0) << name;
    if (!cluster->has_nccl()) continue;
    EXPECT_EQ(cluster->ranks_per_host(), 8) << name;
    EXPECT_GT(cluster->within_host().bytes_per_second(),
              cluster->between_hosts().bytes_per_second())
        << name;
    EXPECT_GT(cluster->product_rates_size(), 1) << name;
  }
}

TEST(FindClusterTest, TheListIsThatOfTheFolder) {
  const std::filesystem::path file = *FindCluster("a100");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path())) {
    names.insert(entry.path().stem());
  }
  const std::set<std::string> listed(BundledClusters().begin(), BundledClusters().end());
  EXPECT_EQ(names, listed);
}

TEST(FindClusterTest, EachValueHasItsSource) {
  for (const absl::string_view name : BundledClusters()) {
    std::ifstream file(*FindCluster(std::string(name)));
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line.substr(0, 2), "# ") << name;
    int comments = 1, fields = 0;
    while (std::getline(file, line)) {
      comments += line.find('#') != std::string::npos ? 1 : 0;
      fields += line[0] != '#' ? 1 : 0;
    }
    EXPECT_GT(3 * comments, fields) << name;
  }
}

TEST(FindClusterTest, OthersAreFiles) {
  const std::string path = testing::TempDir() + "mine.textproto";
  std::ofstream(path) << "f32_flops_per_second: 1e12 memory_bytes_per_second: 1e11 "
                         "within_host { bytes_per_second: 1e10 }";
  EXPECT_EQ(*FindCluster(path), path);
  EXPECT_TRUE(ReadNamedCluster(path).ok());
  const absl::Status unknown = ReadNamedCluster("a10").status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_THAT(unknown.message(), HasSubstr("there is no cluster 'a10'"));
  EXPECT_THAT(unknown.message(), HasSubstr("Tessera has a100, h100, h200"));
  EXPECT_THAT(ReadNamedCluster("./a100").status().message(), HasSubstr("cannot read the cluster"));
}

}  // namespace
}  // namespace tessera
