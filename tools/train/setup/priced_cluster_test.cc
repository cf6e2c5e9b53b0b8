#include "tools/train/setup/priced_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/train/setup/find_cluster.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

TEST(RunClusterTest, HostsAreNumberedByName) {
  const absl::StatusOr<GroupSite> site =
      SiteOfRanks("hierarchical", {"node7", "node7", "node3", "node7"});
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_THAT(site->host_of, ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(site->backend, CollectiveBackend::kHierarchical);
  EXPECT_EQ(SiteOfRanks("fake", {"", ""})->backend, CollectiveBackend::kShm);
  EXPECT_FALSE(SiteOfRanks("smoke", {""}).ok());
}

TEST(RunClusterTest, RanksThatAreOnlyPlanned) {
  CommandLine line;
  Cluster cluster;
  EXPECT_THAT(PlannedSite(line, cluster, 3)->host_of, ElementsAre(0, 0, 0));
  cluster.set_ranks_per_host(2);
  EXPECT_THAT(PlannedSite(line, cluster, 3)->host_of, ElementsAre(0, 0, 1));
  EXPECT_EQ(PlannedSite(line, cluster, 3)->backend, CollectiveBackend::kHierarchical);
  cluster.mutable_nccl();
  EXPECT_EQ(PlannedSite(line, cluster, 3)->backend, CollectiveBackend::kNccl);
  line.world.hosts = {"a", "b", "a"};
  EXPECT_EQ(PlannedSite(line, cluster, 3)->backend, CollectiveBackend::kNccl);
  EXPECT_THAT(PlannedSite(line, cluster, 3)->host_of, ElementsAre(0, 1, 0));
  line.world.backend = "tcp";
  EXPECT_EQ(PlannedSite(line, cluster, 3)->backend, CollectiveBackend::kTcp);
  EXPECT_EQ(PlannedSite(line, cluster, 4).status().message(),
            "--hosts names the hosts of 3 ranks, and there are 4");
}

TEST(RunClusterTest, RanksOfADescribedClusterAreOnItsHosts) {
  CommandLine line;
  line.cluster = "a100";
  EXPECT_EQ(*PlannedRanksOfHost(line, 512), 8);
  const Cluster cluster = *ReadNamedCluster(line.cluster);
  const GroupSite site = *PlannedSite(line, cluster, 512);
  EXPECT_EQ(site.backend, CollectiveBackend::kNccl);
  EXPECT_EQ(site.host_of[7], 0);
  EXPECT_EQ(site.host_of[511], 63);
}

}  // namespace
}  // namespace tessera
