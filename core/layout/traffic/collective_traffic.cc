#include "core/layout/traffic/collective_traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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
// reduce.
CollectiveTraffic NcclTraffic(const CollectiveCall& call, int rank, int ranks) {
  CollectiveTraffic traffic;
  const int64_t elements = PeerElements(call, rank, ranks, /*eager_bytes=*/-1);
  traffic.bytes_sent = elements * SizeOf(call.dtype);
  traffic.steps = call.operation == CollectiveOperation::kAllReduce ? 2 * (ranks - 1) : ranks - 1;
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

CollectiveTraffic TrafficOf(const CollectiveCall& call, const GroupSite& site, int rank) {
  if (site.size() == 1) return {};
  if (site.backend == CollectiveBackend::kNccl) return NcclTraffic(call, rank, site.size());
  if (site.backend == CollectiveBackend::kHierarchical) {
    const RankPlacement placement = PlaceRanks(site.host_of);
    const int hosts = placement.host_count();
    if (hosts != 1 && hosts != site.size()) return HierarchicalTraffic(call, placement, rank);
    CollectiveTraffic traffic = PeerTraffic(call, rank, site.size());
    traffic.bytes_network = hosts == 1 ? 0 : traffic.bytes_sent;
    return traffic;
  }
  CollectiveTraffic traffic = PeerTraffic(call, rank, site.size());
  if (site.backend == CollectiveBackend::kTcp) traffic.bytes_network = traffic.bytes_sent;
  return traffic;
}

}  // namespace tessera
