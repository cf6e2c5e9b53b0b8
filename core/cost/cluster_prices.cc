#include "core/cost/cluster_prices.h"

#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/cost/cluster.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// Returns the host of each of these ranks. Hosts are numbered in the order of their first ranks.
std::vector<int> HostsOf(const std::vector<int>& ranks, const GroupSite& job) {
  absl::flat_hash_map<int, int> numbers;
  std::vector<int> hosts;
  hosts.reserve(ranks.size());
  for (const int rank : ranks) {
    const int next = static_cast<int>(numbers.size());
    hosts.push_back(numbers.try_emplace(job.host_of[rank], next).first->second);
  }
  return hosts;
}

// Returns the positions in a group whose traffic is priced (PricedGroup::positions). The sizes of
// parts do not increase with the rank, so the first or the last rank sends the most, unless some
// ranks send for others.
std::vector<int> PositionsOf(const GroupSite& site) {
  const int last = site.size() - 1;
  const int hosts = *std::max_element(site.host_of.begin(), site.host_of.end()) + 1;
  if (site.backend != CollectiveBackend::kHierarchical || hosts == 1 || hosts == site.size()) {
    return {0, last};
  }
  std::vector<int> positions;
  for (int position = 0; position <= last; ++position) positions.push_back(position);
  return positions;
}

// Returns one group of each kind along a set of axes, bit i of which stands for axis i. Groups
// whose ranks lie on hosts in the same way are of one kind, and have the same prices.
std::vector<PricedGroup> KindsOfGroups(const Mesh& mesh, size_t set, const GroupSite& job) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if ((set >> axis & 1) != 0) axes.push_back(axis);
  }
  std::vector<PricedGroup> kinds;
  std::set<std::vector<int>> seen;
  for (const std::vector<int>& ranks : mesh.GroupsAlong(axes)) {
    if (ranks.size() == 1) continue;
    GroupSite site = {job.backend, HostsOf(ranks, job)};
    if (!seen.insert(site.host_of).second) continue;
    std::vector<int> positions = PositionsOf(site);
    const bool on_one_host = absl::c_all_of(site.host_of, [](int host) { return host == 0; });
    kinds.push_back({std::move(site), on_one_host, std::move(positions)});
  }
  return kinds;
}

}  // namespace

ClusterPrices::ClusterPrices(const Cluster& cluster, const Mesh& mesh, const GroupSite& job)
    : mesh_(mesh),
      within_host_(cluster.has_within_host() ? cluster.within_host() : cluster.between_hosts()),
      between_hosts_(cluster.has_between_hosts() ? cluster.between_hosts()
                                                 : cluster.within_host()) {
  TESSERA_CHECK(job.size() == mesh.size())
      << job.size() << " ranks for {" << mesh.ToString() << "}";
  const size_t sets = size_t{1} << mesh.num_axes();
  for (size_t set = 0; set < sets; ++set) groups_.push_back(KindsOfGroups(mesh, set, job));
}

ClusterPrices::ClusterPrices(const Cluster& cluster, const Mesh& mesh)
    : ClusterPrices(cluster, mesh, SiteOnCluster(cluster, mesh.size())) {}

const std::vector<PricedGroup>& ClusterPrices::GroupsAlong(absl::Span<const int> axes) const {
  size_t set = 0;
  for (const int axis : axes) set |= size_t{1} << axis;
  return groups_[set];
}

double ClusterPrices::Seconds(const CollectiveTraffic& traffic, const PricedGroup& group) const {
  const int64_t between = group.on_one_host ? 0 : traffic.bytes_network;
  const int64_t within = traffic.bytes_sent - between;
  const double latency = (group.on_one_host ? within_host_ : between_hosts_).latency_seconds();
  double seconds = static_cast<double>(traffic.steps) * latency;
  if (within > 0) seconds += static_cast<double>(within) / within_host_.bytes_per_second();
  if (between > 0) seconds += static_cast<double>(between) / between_hosts_.bytes_per_second();
  return seconds;
}

double ClusterPrices::Seconds(const CollectiveCall& call, const Mesh& mesh) const {
  TESSERA_CHECK(mesh == mesh_) << "{" << mesh.ToString() << "} and {" << mesh_.ToString() << "}";
  double longest = 0;
  for (const PricedGroup& group : GroupsAlong(call.axes)) {
    for (const int position : group.positions) {
      longest = std::max(longest, Seconds(TrafficOf(call, group.site, position), group));
    }
  }
  return longest;
}

double ComputationSeconds(const OpCost& cost, DType dtype, const Cluster& cluster) {
  double rate = cluster.f32_flops_per_second();
  if (dtype == DType::kBF16 && cluster.bf16_flops_per_second() > 0) {
    rate = cluster.bf16_flops_per_second();
  } else if (dtype == DType::kF16 && cluster.f16_flops_per_second() > 0) {
    rate = cluster.f16_flops_per_second();
  }
  return std::max(cost.flops / rate, cost.bytes / cluster.memory_bytes_per_second()) +
         cluster.seconds_per_instruction();
}

}  // namespace tessera
