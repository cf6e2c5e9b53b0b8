// The prices of a cluster: seconds of collectives and of computing instructions.
//
// A collective takes the latency of each of its steps and the time of the bytes that a rank sends:
//
//   seconds = steps * latency + bytes within the host / rate within it
//                             + bytes over the network / rate between hosts
//
// GroupTraffic gives the steps and bytes. The latency is the one between hosts if the group is on
// several hosts. Over TCP on one host, bytes take the link within the host. Tests compare these
// formulas with the counters of the real backends, which need fewer steps than a ring (RingPrices).
// The price is that of the slowest rank. Collectives of NCCL have its own model
// (core/cost/nccl_prices.h). Prices that were measured replace these.
#ifndef TESSERA_CORE_COST_CLUSTER_PRICES_H_
#define TESSERA_CORE_COST_CLUSTER_PRICES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/cost/prices/collective_curves.h"
#include "core/graph/operator.h"
#include "core/layout/traffic/collective_call.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/proto/cluster.pb.h"
#include "core/sync/mutex.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tessera {

// Thread safety: any number of threads may call const methods.
class ClusterPrices final : public CollectivePrices {
 public:
  // `job` gives the host of each rank of the mesh, and each rank computes with `threads` threads.
  // `measured` may be null, and must outlive this object.
  ClusterPrices(const Cluster& cluster, const Mesh& mesh, const GroupSite& job, int threads = 1,
                const CollectiveCurves* measured = nullptr);
  // Consecutive ranks share a host; the cluster has the number of ranks on each.
  ClusterPrices(const Cluster& cluster, const Mesh& mesh);

  // Returns the seconds of the slowest rank. `mesh` must equal the constructor's.
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override;
  // Returns the times on the slowest rank of one group.
  CollectivePrice Price(const CollectiveCall& call, const GroupTraffic& group) const;
  // Returns the seconds that one rank's traffic in a group takes.
  double Seconds(const CollectiveTraffic& traffic, const GroupTraffic& group) const;

  // Returns one group of each kind along these axes: groups whose ranks are distributed over hosts
  // in the same way cost the same. The list is empty if the groups have one rank. It is valid as
  // long as this object.
  const std::vector<GroupTraffic>& GroupsAlong(absl::Span<const int> axes) const;

 private:
  // Returns the seconds of the slowest rank of a group by the rates of the cluster.
  double DescribedSeconds(const CollectiveCall& call, const GroupTraffic& group) const;

  const Mesh mesh_;
  const GroupSite job_;
  const Cluster cluster_;
  const Link within_host_, between_hosts_;
  const CollectiveCurves* const measured_;
  const CurveRanks ranks_;
  mutable Mutex mutex_;
  // By set of axes, axis i as bit i: those that were asked for. Its values stay where they are.
  mutable std::map<uint32_t, std::vector<GroupTraffic>> groups_ ABSL_GUARDED_BY(mutex_);
};

// Returns the number of ranks on the host of a job that has most of them.
int RanksOfFullestHost(const GroupSite& job);

// Returns the dtype whose rate an instruction takes: that of 16 bits if it reads a matrix of it, or
// else f32. Its other operands may be f32 all the same: the sum to which a product is added, or
// kept logits.
DType DTypeOfRate(absl::Span<const TensorType> inputs);
// Returns the peak rate of a device of the cluster in a dtype; that of f32 if it has none.
double FlopsPerSecond(const Cluster& cluster, DType dtype);
// Returns the share of the peak that an instruction of this operator and so many FLOPs reaches: by
// Cluster::operator_rates if it has the operator, else by Cluster::product_rates.
double ShareOfPeak(absl::string_view op, double flops, const Cluster& cluster);
// Returns the seconds of an instruction that does not communicate, of this operator ("" if it is a
// copy): the longer of its FLOPs at its share of the peak rate of `dtype` and its bytes at the rate
// of memory, plus seconds_per_instruction.
double ComputationSeconds(absl::string_view op, const OpCost& cost, DType dtype,
                          const Cluster& cluster);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_CLUSTER_PRICES_H_
