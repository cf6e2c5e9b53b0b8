// The cluster for which a run is planned and its cost estimated, and the site of its ranks in the
// cluster.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_PRICED_CLUSTER_H_
#define TESSERA_TOOLS_TRAIN_SETUP_PRICED_CLUSTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/proto/cluster.pb.h"
#include "core/tensor/dtype.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"

namespace tessera {

struct PricedCluster {
  Cluster cluster;
  GroupSite site;  // of all ranks; empty if nothing is priced
};

// Returns the site of a job's ranks. hosts[r] is the name of the host of rank r. `backend` is that
// of their world: "shm", "tcp", "hierarchical", "nccl", or "fake", whose ranks communicate as over
// shm.
absl::StatusOr<GroupSite> SiteOfRanks(absl::string_view backend,
                                      absl::Span<const std::string> hosts);

// Returns the site of ranks that are only planned (--plan_only): from --backend and --hosts, or
// else from `cluster`: by NCCL if it has that, and consecutive ranks on its hosts.
absl::StatusOr<GroupSite> PlannedSite(const CommandLine& line, const Cluster& cluster, int ranks);

// Returns how many ranks, of those that are only planned, are on one host at most: by --hosts or
// --cluster, or else all of them. So a rank is planned with as many threads as it has
// when that many run on this machine.
absl::StatusOr<int> PlannedRanksOfHost(const CommandLine& line, int ranks);

// Returns the cluster of --cluster. Without the flag, returns a cluster of ranks like
// this one with the best rates of this machine in f32 and in `dtype`; they are measured if none is
// kept from earlier runs. The network between hosts is the environment's: TESSERA_NETWORK is its
// name, and TESSERA_NETWORK_BYTES_PER_SECOND and TESSERA_NETWORK_LATENCY_SECONDS are its links'.
// `tcp`: ranks of one host communicate over TCP. Collective: rank 0 reads or measures, and the
// others receive its cluster. Errors are agreed ones.
absl::StatusOr<Cluster> ClusterOfRun(const CommandLine& line, Backend& backend, DType dtype,
                                     bool tcp, Ranks& ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_PRICED_CLUSTER_H_
