// Finds the ranks of a group among which the one that sends the most is, so that not all ranks have
// to be priced.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_BUSIEST_RANKS_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_BUSIEST_RANKS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/layout/traffic/collective_call.h"
#include "core/tensor/rank_placement.h"

namespace tessera {

// For groups in which each rank sends to all others, or along a ring. The sizes of parts do not
// increase with the rank, so the first or the last rank sends the most, whatever the calls of one
// operation are.
std::vector<int> BusiestPeers(int ranks);

// For groups of HierarchicalTraffic. `calls` are of one operation. However often each of them is
// made, and whatever a byte within a host and one over the network cost, one of these ranks has the
// highest cost. Their number does not grow with that of the ranks, unless the placement is
// irregular and the operation an all-gather, in which every host may send another number of bytes.
std::vector<int> BusiestRanks(absl::Span<const CollectiveCall> calls,
                              const RankPlacement& placement);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_BUSIEST_RANKS_H_
