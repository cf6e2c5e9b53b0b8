// The cluster for which Plans are priced. It is read from a file, or made from this machine's
// rates.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_CORE_COST_CLUSTER_H_
#define TESSERA_CORE_COST_CLUSTER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/cost/machine.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/proto/cluster.pb.h"

namespace tessera {

// Returns InvalidArgument, with the field's name, if a required field is not set or a value is
// impossible. Required are the rates of f32 and of memory, the link within a host if hosts have
// several ranks, and the link between hosts if there are several hosts.
absl::Status CheckCluster(const Cluster& cluster);

// Reads protobuf's text form, and checks it. InvalidArgument, in one line, names the line or field.
absl::StatusOr<Cluster> ParseCluster(const std::string& text);

// Reads a file. Errors begin with its path.
absl::StatusOr<Cluster> ReadCluster(const std::string& path);

// Returns a cluster with the rates of this machine and all ranks on one host. Rates that were not
// measured are those of a typical core. Links have the rates measured in docs/collectives.md:
// - within a host, over shared memory (an all-reduce between 2 ranks of 4 KiB in 2.9 us, of 64 MiB
//   in 5.9 ms), or over TCP on the loopback interface if `backend` is tcp (10 to 13 us, 30 to 36
//   ms);
// - between hosts, Ethernet of 1 Gbit/s, of which TCP carries 94 %.
Cluster ClusterOfMachine(const std::string& name, const MachineRates& rates,
                         CollectiveBackend backend = CollectiveBackend::kShm);

// Returns the host of each rank of a job on the cluster: consecutive ranks share a host. The
// backend is NCCL if the cluster has it, or else hierarchical.
GroupSite SiteOnCluster(const Cluster& cluster, int ranks);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_CLUSTER_H_
