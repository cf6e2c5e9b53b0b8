#include "core/cost/cluster_prices.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/cost/cluster.h"
#include "core/cost/nccl_prices.h"
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

// Returns one group of each kind along these axes. Groups whose ranks lie on hosts in the same way
// are of one kind, and have the same prices.
std::vector<GroupTraffic> KindsOfGroups(const Mesh& mesh, absl::Span<const int> axes,
                                        const GroupSite& job) {
  std::vector<GroupTraffic> kinds;
  std::set<std::vector<int>> seen;
  for (const std::vector<int>& ranks : mesh.GroupsAlong(axes)) {
    if (ranks.size() == 1) break;  // as all others have
    std::vector<int> hosts = HostsOf(ranks, job);
    if (seen.insert(hosts).second) kinds.emplace_back(GroupSite{job.backend, std::move(hosts)});
  }
  return kinds;
}

}  // namespace

ClusterPrices::ClusterPrices(const Cluster& cluster, const Mesh& mesh, const GroupSite& job,
                             int threads, const CollectiveCurves* measured)
    : mesh_(mesh),
      job_(job),
      cluster_(cluster),
      within_host_(cluster.has_within_host() ? cluster.within_host() : cluster.between_hosts()),
      between_hosts_(cluster.has_between_hosts() ? cluster.between_hosts() : cluster.within_host()),
      measured_(measured),
      ranks_{RanksOfFullestHost(job), threads, cluster.network()} {
  TESSERA_CHECK(job.size() == mesh.size())
      << job.size() << " ranks for {" << mesh.ToString() << "}";
}

ClusterPrices::ClusterPrices(const Cluster& cluster, const Mesh& mesh)
    : ClusterPrices(cluster, mesh, SiteOnCluster(cluster, mesh.size())) {}

const std::vector<GroupTraffic>& ClusterPrices::GroupsAlong(absl::Span<const int> axes) const {
  uint32_t set = 0;
  for (const int axis : axes) set |= uint32_t{1} << axis;
  const MutexLock lock(&mutex_);
  const auto [it, is_new] = groups_.try_emplace(set);
  if (is_new) it->second = KindsOfGroups(mesh_, axes, job_);
  return it->second;
}

double ClusterPrices::Seconds(const CollectiveTraffic& traffic, const GroupTraffic& group) const {
  const bool on_one_host = group.hosts() == 1;
  const int64_t between = on_one_host ? 0 : traffic.bytes_network;
  const int64_t within = traffic.bytes_sent - between;
  const double latency = (on_one_host ? within_host_ : between_hosts_).latency_seconds();
  double seconds = static_cast<double>(traffic.steps) * latency;
  if (within > 0) seconds += static_cast<double>(within) / within_host_.bytes_per_second();
  if (between > 0) seconds += static_cast<double>(between) / between_hosts_.bytes_per_second();
  return seconds;
}

double ClusterPrices::DescribedSeconds(const CollectiveCall& call,
                                       const GroupTraffic& group) const {
  if (group.site().backend == CollectiveBackend::kNccl) {
    return NcclSeconds(call, {group.ranks(), group.hosts(), group.LeastRanksOfHost()}, cluster_);
  }
  double longest = 0;
  for (const int rank : group.BusiestRanks({call})) {
    longest = std::max(longest, Seconds(group.Of(call, rank), group));
  }
  return longest;
}

CollectivePrice ClusterPrices::Price(const CollectiveCall& call, const GroupTraffic& group) const {
  if (measured_ != nullptr && !measured_->empty()) {
    const std::string name =
        CurveName(call.operation, call.dtype, call.reduction, group.site(), ranks_);
    const int64_t element = SizeOf(call.dtype);
    const auto described = [&](int64_t bytes) {
      CollectiveCall sized = call;
      sized.count = bytes / element;
      sized.part = (sized.count + group.ranks() - 1) / group.ranks();
      return DescribedSeconds(sized, group);
    };
    const std::optional<CollectivePrice> price =
        measured_->Of(name, call.count * element, described);
    if (price.has_value()) return *price;
  }
  const double seconds = DescribedSeconds(call, group);
  if (group.site().backend != CollectiveBackend::kNccl) return {{seconds, seconds, 0}};
  return {{seconds, seconds, seconds * cluster_.nccl().share_of_device()}};
}

double ClusterPrices::Seconds(const CollectiveCall& call, const Mesh& mesh) const {
  TESSERA_CHECK(mesh == mesh_) << "{" << mesh.ToString() << "} and {" << mesh_.ToString() << "}";
  double longest = 0;
  for (const GroupTraffic& group : GroupsAlong(call.axes)) {
    longest = std::max(longest, Price(call, group).times.alone);
  }
  return longest;
}

int RanksOfFullestHost(const GroupSite& job) {
  absl::flat_hash_map<int, int> ranks;
  int most = 1;
  for (const int host : job.host_of) most = std::max(most, ++ranks[host]);
  return most;
}

DType DTypeOfRate(absl::Span<const TensorType> inputs) {
  for (const TensorType& input : inputs) {
    if (input.shape.size() > 1 && IsHalf(input.dtype)) return input.dtype;
  }
  return DType::kF32;
}

double ShareOfPeak(absl::string_view op, double flops, const Cluster& cluster) {
  const auto* rates = &cluster.product_rates();
  for (const OperatorRates& of : cluster.operator_rates()) {
    if (of.op() == op) rates = &of.rates();
  }
  if (rates->empty()) return 1;
  const auto next =
      std::lower_bound(rates->begin(), rates->end(), flops,
                       [](const RateOfSize& rate, double value) { return rate.flops() < value; });
  if (next == rates->begin()) return next->share_of_peak();
  const RateOfSize& before = *std::prev(next);
  if (next == rates->end()) return before.share_of_peak();
  const double weight = std::log(flops / before.flops()) / std::log(next->flops() / before.flops());
  return before.share_of_peak() + weight * (next->share_of_peak() - before.share_of_peak());
}

double FlopsPerSecond(const Cluster& cluster, DType dtype) {
  if (dtype == DType::kBF16 && cluster.bf16_flops_per_second() > 0) {
    return cluster.bf16_flops_per_second();
  }
  if (dtype == DType::kF16 && cluster.f16_flops_per_second() > 0) {
    return cluster.f16_flops_per_second();
  }
  return cluster.f32_flops_per_second();
}

double ComputationSeconds(absl::string_view op, const OpCost& cost, DType dtype,
                          const Cluster& cluster) {
  const double rate = FlopsPerSecond(cluster, dtype) * ShareOfPeak(op, cost.flops, cluster);
  return std::max(cost.flops / rate, cost.bytes / cluster.memory_bytes_per_second()) +
         cluster.seconds_per_instruction();
}

}  // namespace tessera
