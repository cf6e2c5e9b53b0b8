// The prices of a cluster: seconds of collectives and of computing instructions.
//
// A collective takes the latency of each of its steps and the time of the bytes that a rank sends:
//
//   seconds = steps * latency + bytes within the host / rate within it
//                             + bytes over the network / rate between hosts
//
// with TrafficOf's steps and bytes, and the latency between hosts if the group is on several. Over
// TCP on one host, bytes take the link within the host. These
// are the formulas of the backends that run, which their counters are tested against; a ring
// (RingPrices) would take more steps than they do. The rank that needs most decides.
#ifndef TESSERA_CORE_COST_CLUSTER_PRICES_H_
#define TESSERA_CORE_COST_CLUSTER_PRICES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/operator.h"
#include "core/layout/collective_call.h"
#include "core/layout/collective_traffic.h"
#include "core/proto/cluster.pb.h"
#include "core/tensor/dtype.h"

namespace tessera {

// A group of ranks along axes of a mesh, and the positions in it of the ranks among which there is
// one that sends the most, whatever they communicate.
struct PricedGroup {
  GroupSite site;
  bool on_one_host = false;
  std::vector<int> positions;
};

// Thread safety: immutable after construction.
class ClusterPrices final : public CollectivePrices {
 public:
  // `job` has the host of each rank of the mesh.
  ClusterPrices(const Cluster& cluster, const Mesh& mesh, const GroupSite& job);
  // Consecutive ranks share a host, as the cluster says.
  ClusterPrices(const Cluster& cluster, const Mesh& mesh);

  // `mesh` is that of the constructor.
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override;
  // Seconds of one rank's traffic in a group.
  double Seconds(const CollectiveTraffic& traffic, const PricedGroup& group) const;

  // Returns one group of each kind that there is along these axes: groups whose ranks lie on hosts
  // in the same way cost the same. The list is empty for groups of one rank.
  const std::vector<PricedGroup>& GroupsAlong(absl::Span<const int> axes) const;

 private:
  const Mesh mesh_;
  const Link within_host_, between_hosts_;
  std::vector<std::vector<PricedGroup>> groups_;  // by set of axes, axis i as bit i
};

// Seconds of an instruction that does not communicate: its FLOPs at the rate of the dtype of its
// operands, or its bytes at the rate of memory, whichever is longer, and seconds_per_instruction.
double ComputationSeconds(const OpCost& cost, DType dtype, const Cluster& cluster);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_CLUSTER_PRICES_H_
