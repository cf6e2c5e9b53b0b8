#include "tools/train/setup/priced_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/cost/best_rates.h"
#include "core/kernels/reference/backend.h"
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

// Sets a variable of the environment for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(RunClusterTest, TheEnvironmentDescribesTheNetworkBetweenHosts) {
  const Variable cache("XDG_CACHE_HOME", testing::TempDir().c_str());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  KeepBestRates(BestRatesPath(), MachineName(*backend), {1e9, 1e9});  // or they would be measured
  Ranks alone;
  const auto cluster = [&] { return ClusterOfRun({}, *backend, DType::kF32, true, alone); };
  const double usual_latency = cluster()->between_hosts().latency_seconds();
  const Variable name("TESSERA_NETWORK", "a slow one");
  {
    const Variable rate("TESSERA_NETWORK_BYTES_PER_SECOND", "2.5e7");
    const absl::StatusOr<Cluster> described = cluster();
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->network(), "a slow one");
    EXPECT_EQ(described->between_hosts().bytes_per_second(), 2.5e7);
    EXPECT_EQ(described->between_hosts().latency_seconds(), usual_latency);
  }
  for (const char* text : {"fast", "", "0", "-1", "nan", "inf"}) {
    const Variable latency("TESSERA_NETWORK_LATENCY_SECONDS", text);
    EXPECT_EQ(cluster().status().message(),
              absl::StrCat("TESSERA_NETWORK_LATENCY_SECONDS=", text, " is not a number above 0"));
  }
}

}  // namespace
}  // namespace tessera
