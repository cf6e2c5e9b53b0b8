#include "core/layout/traffic/collective_traffic.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/layout/traffic/busiest_ranks.h"
#include "core/layout/traffic/hierarchical_traffic.h"
#include "core/layout/traffic/peer_traffic.h"

namespace tessera {

absl::StatusOr<CollectiveBackend> ParseCollectiveBackend(absl::string_view name) {
  if (name == "shm") return CollectiveBackend::kShm;
  if (name == "tcp") return CollectiveBackend::kTcp;
  if (name == "hierarchical") return CollectiveBackend::kHierarchical;
  if (name == "nccl") return CollectiveBackend::kNccl;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' is no backend of collectives; one is shm, tcp, hierarchical or nccl"));
}

namespace {

// The traffic of a ring, except that an all-reduce's bytes are those of the parts that ranks
// reduce. The ring goes through all ranks of a host before those of the next one, and the last rank
// of each sends to the next host. In an all-to-all a rank sends to all others.
CollectiveTraffic NcclTraffic(const CollectiveCall& call, const RankPlacement& placement,
                              int rank) {
  CollectiveTraffic traffic;
  const int ranks = placement.size();
  const int64_t elements = PeerElements(call, rank, ranks, /*eager_bytes=*/-1);
  traffic.bytes_sent = elements * SizeOf(call.dtype);
  traffic.steps = call.operation == CollectiveOperation::kAllReduce ? 2 * (ranks - 1) : ranks - 1;
  if (placement.host_count() == 1) return traffic;
  const std::vector<int>& host = placement.hosts[placement.places[rank].host];
  if (call.operation != CollectiveOperation::kAllToAll) {
    if (rank == host.back()) traffic.bytes_network = traffic.bytes_sent;
    return traffic;
  }
  int64_t within = 0;
  for (const int peer : host) within += peer == rank ? 0 : PartSize(call.count, call.part, peer);
  traffic.bytes_network = (elements - within) * SizeOf(call.dtype);
  return traffic;
}

// The traffic if each rank sends directly to all others.
CollectiveTraffic PeerTraffic(const CollectiveCall& call, int rank, int ranks) {
  CollectiveTraffic traffic;
  traffic.bytes_sent = PeerElements(call, rank, ranks, kEagerBytes) * SizeOf(call.dtype);
  traffic.steps = PeerSteps(call);
  return traffic;
}

}  // namespace

GroupTraffic::GroupTraffic(GroupSite site)
    : site_(std::move(site)), placement_(PlaceRanks(site_.host_of)) {}

int GroupTraffic::LeastRanksOfHost() const {
  size_t least = placement_.hosts[0].size();
  for (const std::vector<int>& host : placement_.hosts) least = std::min(least, host.size());
  return static_cast<int>(least);
}

CollectiveTraffic GroupTraffic::Of(const CollectiveCall& call, int rank) const {
  if (ranks() == 1) return {};
  if (site_.backend == CollectiveBackend::kNccl) return NcclTraffic(call, placement_, rank);
  if (is_hierarchical()) return HierarchicalTraffic(call, placement_, rank);
  CollectiveTraffic traffic = PeerTraffic(call, rank, ranks());
  const bool network = site_.backend == CollectiveBackend::kTcp ||
                       (site_.backend == CollectiveBackend::kHierarchical && hosts() > 1);
  if (network) traffic.bytes_network = traffic.bytes_sent;
  return traffic;
}

std::vector<int> GroupTraffic::BusiestRanks(absl::Span<const CollectiveCall> calls) const {
  return is_hierarchical() ? tessera::BusiestRanks(calls, placement_) : BusiestPeers(ranks());
}

CollectiveTraffic TrafficOf(const CollectiveCall& call, const GroupSite& site, int rank) {
  return GroupTraffic(site).Of(call, rank);
}

}  // namespace tessera
