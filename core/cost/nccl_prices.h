// The time of NCCL's collectives, by the model by which NCCL itself chooses among its algorithms
// and protocols: src/graph/tuning.cc of github.com/NVIDIA/nccl (ncclTopoTuneModel and
// ncclTopoGetAlgoTime), of about version 2.21, from which the constants are. It has not been
// compared with collectives that ran.
//
//   seconds = latency(algorithm, protocol, ranks, hosts) + bytes / bandwidth(algorithm, protocol)
//
// is the least of
// - a ring, for all-reduces, reduce-scatters and all-gathers: each rank sends to the next one;
// - a tree, for all-reduces: a chain within each host, a binary tree between hosts;
// - NVLS, for all-reduces: switches within a host reduce, and a binary tree connects hosts
// with the protocols LL (half of the bytes are flags that say that the data are there), LL128 (a
// sixteenth are; over NVLink only) and Simple (chunks with a flag each).
//
// The bandwidth of a ring is that of the link within a host, or the sum of the shares of the
// network that the group's ranks of a host have, if that is less. An all-to-all is one message to
// each rank, for which NCCL has no model: those within the host and those over the network run at
// the same time. Left out are CollNet (InfiniBand switches that reduce), the limits of single
// channels, and PAT (2.23; all-gathers and reduce-scatters with one rank on each host).
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_NCCL_PRICES_H_
#define TESSERA_CORE_COST_NCCL_PRICES_H_

#include "core/layout/traffic/collective_call.h"
#include "core/proto/cluster.pb.h"

namespace tessera {

// The ranks of a group.
struct NcclGroup {
  int ranks = 1;
  int hosts = 1;
  int least_of_host = 1;  // the ranks on the host that has the fewest of them
};

// Returns the seconds of a collective: of an all-reduce, a reduce-scatter, an all-gather or an
// all-to-all, in a group of at least two ranks. `cluster` has the links that the group needs. Its
// latencies are used where they exceed those of NCCL's model, which are of NVLink, PCIe and
// InfiniBand.
double NcclSeconds(const CollectiveCall& call, const NcclGroup& group, const Cluster& cluster);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_NCCL_PRICES_H_
