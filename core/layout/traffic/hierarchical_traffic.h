// The traffic of collectives in groups with several ranks on each of several hosts.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_HIERARCHICAL_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_HIERARCHICAL_TRAFFIC_H_

#include "core/layout/traffic/collective_traffic.h"
#include "core/tensor/rank_placement.h"

namespace tessera {

// Returns the traffic of one rank. The group must be on more than one host, with more than one rank
// on at least one of them.
CollectiveTraffic HierarchicalTraffic(const CollectiveCall& call, const RankPlacement& placement,
                                      int rank);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_HIERARCHICAL_TRAFFIC_H_
